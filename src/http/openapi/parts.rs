//! Builds the parts of the OpenAPI document that several operations have in common.

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{ContentBuilder, Header, ObjectBuilder, Ref, RefOr, Response, Type};

use crate::http::pipeline::Code;

pub(super) fn refusal(status: u16) -> Response {
    let codes = Code::ALL.iter().filter(|code| code.status().as_u16() == status);
    let codes: Vec<_> = codes.map(|code| format!("`{}`", code.as_str())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    let mut response = ResponseBuilder::new()
        .description(codes.join(", "))
        .content("application/json", content)
        .build();
    let page = header("The page about the code, as `<URL>; rel=\"help\"` (`server.errors_url`)");
    response.headers.insert("Link".to_owned(), page);
    if matches!(status, 429 | 500 | 503) {
        let wait = count_header("Seconds to wait before another try, at least 1");
        response.headers.insert("Retry-After".to_owned(), wait);
    }
    response
}

pub(super) fn add_limit_headers(response: &mut Response) {
    for (name, description) in [
        ("X-RateLimit-Limit", "Requests allowed in the window; left out where there is no limit"),
        ("X-RateLimit-Remaining", "Requests that are left"),
        ("X-RateLimit-Reset", "Unix second at which the bucket is full again"),
    ] {
        response.headers.insert(name.to_owned(), count_header(description));
    }
    for (name, description) in [
        ("RateLimit-Policy", "The limit, as `\"hour\";q=1000;w=3600`"),
        ("RateLimit", "What is left, as `\"hour\";r=998;t=8`"),
    ] {
        response.headers.insert(name.to_owned(), header(description));
    }
}

pub(super) fn header(description: &str) -> RefOr<Header> {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    HeaderBuilder::new().schema(Some(text)).description(Some(description)).build().into()
}

fn count_header(description: &str) -> RefOr<Header> {
    let count = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).build();
    HeaderBuilder::new().schema(Some(count)).description(Some(description)).build().into()
}

pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete]
        .into_iter()
        .filter_map(Option::as_mut)
}
