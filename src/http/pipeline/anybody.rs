//! Admits every known caller, and the server's own pages with or without a session.

use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::{Caller, Permissions, Recent, SignedIn};

use super::administrator::administrator;
use super::auth::{Admitted, Guard, Key, count_failure};
use super::body_budget::Holder;
use super::browser::{check_host, check_page, session_token};
use super::error::ApiError;
use super::origin::Identity;
use super::principal::{Member, Principal, check_recent, member, member_of, visit};
use crate::http::edge::Edge;

/// Admits every key, session and admin token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anybody;

/// A known caller.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// The holder of an API key.
    Key(Arc<Caller>),
    /// A person, with the workspace that the request names or that is their only one.
    Person(SignedIn, Option<Box<Member>>),
    /// The holder of an admin token.
    Administrator {
        /// The token's id, if it has one.
        id: Option<Box<str>>,
        /// The token's name, if it has one.
        name: Option<Box<str>>,
    },
}

impl Known {
    /// Returns a person with their only workspace, if they have exactly one.
    pub(crate) fn of_person(edge: &Edge, signed_in: SignedIn) -> Self {
        let only = match signed_in.person.as_ref().map(|person| person.memberships.as_slice()) {
            Some([only]) => member_of(edge, &signed_in, &only.workspace).ok(),
            _ => None,
        };
        Self::of_member(edge, signed_in, only)
    }

    /// Returns a person with their workspace. If they lack an authenticator that the workspace
    /// requires, they have no permissions there.
    fn of_member(edge: &Edge, signed_in: SignedIn, member: Option<Member>) -> Self {
        let member = member.map(|member| match member.lacks_authenticator(edge) {
            true => Member { permissions: Permissions::default(), ..member },
            false => member,
        });
        Self::Person(signed_in, member.map(Box::new))
    }
}

impl Guard for Anybody {
    type Caller = Known;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Known> {
        if let Some(visit) = visit(edge, parts) {
            return visit.map_or_else(Admitted::without_caller, |(signed_in, bucket)| {
                let caller = member(edge, parts, &signed_in)
                    .map(|member| Known::of_member(edge, signed_in.clone(), member));
                Admitted { identity: Identity::Person(signed_in), bucket, caller }
            });
        }
        if let Some(identity) = administrator(edge, parts)
            && let Identity::Administrator { id, name } = identity.clone()
        {
            let caller = Ok(Known::Administrator { id, name });
            return Admitted { identity, bucket: None, caller };
        }
        let Admitted { identity, bucket, caller } = Key::ANY.admit(edge, parts);
        let caller = caller.and_then(|caller| match caller {
            Principal::Key(caller) => Ok(Known::Key(caller)),
            // Sessions were handled above.
            Principal::Person(_) => Err(ApiError::internal()),
        });
        Admitted { identity, bucket, caller }
    }

    fn workspace(&self, caller: &Known) -> Option<WorkspaceId> {
        match caller {
            Known::Key(caller) => Some(caller.workspace.id().clone()),
            Known::Person(_, Some(member)) => Some(member.workspace.id().clone()),
            Known::Person(_, None) | Known::Administrator { .. } => None,
        }
    }

    fn holder(&self, _: &Edge, caller: &Known, _: &Parts) -> Holder {
        match caller {
            Known::Key(caller) => Holder::Key(caller.key_id),
            Known::Person(signed_in, _) => Holder::Session(signed_in.session.id()),
            Known::Administrator { .. } => Holder::Administrator,
        }
    }

    fn needs(&self) -> Option<&'static str> {
        Some("any")
    }
}

/// Admits requests for a host name of this server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnHost;

impl Guard for OwnHost {
    type Caller = ();

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<()> {
        let caller = check_host(&edge.options.dashboard, &parts.headers);
        Admitted { identity: Identity::Anonymous, bucket: None, caller }
    }
}

/// Admits the server's own pages, whether somebody has signed in or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnPage;

impl Guard for OwnPage {
    type Caller = Option<SignedIn>;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Option<SignedIn>> {
        let checked = check_page(&edge.options.dashboard, parts);
        let is_by_cookie = !parts.headers.contains_key(AUTHORIZATION);
        let token = session_token(edge, &parts.headers).filter(|_| is_by_cookie);
        let signed_in = token.and_then(|token| edge.engine.people().signed_in(token));
        let identity = signed_in.clone().map_or(Identity::Anonymous, Identity::Person);
        let caller = checked.and_then(|()| {
            let Some(who) = &signed_in else { return Ok(None) };
            match edge.engine.people().admit(&who.session).0 {
                None => Ok(signed_in),
                Some(wait) => {
                    Err(ApiError::rate_limited(wait, "too many requests with this session"))
                }
            }
        });
        Admitted { identity, bucket: None, caller }
    }
}

/// Admits the server's own pages with a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignedInPage;

impl Guard for SignedInPage {
    type Caller = SignedIn;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<SignedIn> {
        let Admitted { identity, bucket, caller } = OwnPage.admit(edge, parts);
        let caller = caller.and_then(|who| {
            let error = || ApiError::unauthorized("there is no session; sign in");
            who.ok_or_else(|| count_failure(edge, parts, error()))
        });
        Admitted { identity, bucket, caller }
    }

    fn holder(&self, _: &Edge, caller: &SignedIn, _: &Parts) -> Holder {
        Holder::Session(caller.session.id())
    }
}

/// Admits the server's own pages with a session that was started or confirmed within ten minutes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecentlySignedIn;

impl Guard for RecentlySignedIn {
    type Caller = SignedIn;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<SignedIn> {
        let Admitted { identity, bucket, caller } = SignedInPage.admit(edge, parts);
        let caller = caller
            .and_then(|who| check_recent(edge, &parts.method, &who, Recent::Always).map(|()| who));
        Admitted { identity, bucket, caller }
    }

    fn holder(&self, _: &Edge, caller: &SignedIn, _: &Parts) -> Holder {
        Holder::Session(caller.session.id())
    }
}
