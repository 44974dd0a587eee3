//! Administers workspaces below `/admin/v1`, with the admin token.

mod archive;
mod audit;
mod clock;
mod cluster;
mod credits;
mod destinations;
mod email;
mod invites;
mod keys;
mod limits;
mod members;
mod number_check;
mod number_figures;
mod number_row;
mod numbers;
mod otp_channels;
mod otp_texts;
mod params;
mod portfolios;
mod release;
mod sms;
mod system;
mod templates;
mod test_phones;
mod tokens;
mod users;
mod webhooks;
mod workspaces;

use super::pipeline::Routes;
pub(crate) use limits::LimitsSchema;
pub(crate) use number_figures::KEEPS_FAILING;
pub(crate) use params::check_name;

/// Returns the routes of the administration. The routes for people are mounted only with the
/// dashboard.
pub(crate) fn routes(with_people: bool) -> Routes {
    let people = || users::routes().merge(members::routes()).merge(invites::routes());
    let people = if with_people { people() } else { Routes::default() };
    people
        .merge(workspaces::routes())
        .merge(keys::routes())
        .merge(tokens::routes())
        .merge(archive::routes())
        .merge(audit::routes())
        .merge(clock::routes())
        .merge(cluster::routes())
        .merge(credits::routes())
        .merge(limits::routes())
        .merge(email::routes())
        .merge(destinations::routes())
        .merge(test_phones::routes())
        .merge(sms::routes())
        .merge(otp_channels::routes())
        .merge(otp_texts::routes())
        .merge(numbers::routes())
        .merge(portfolios::routes())
        .merge(number_check::routes())
        .merge(release::routes())
        .merge(system::routes())
        .merge(templates::routes())
        .merge(webhooks::routes())
}
