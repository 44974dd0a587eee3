//! Shows callers their identity and their permissions.

use postrider_actors::domain::WorkspaceId;
use postrider_actors::{AdminError, Permission, Permissions, SessionHolder, SignedIn};
use serde::Serialize;
use utoipa::ToSchema;

use super::edge::Edge;
use super::elsewhere::KnownWorkspace;
use super::pipeline::{
    Answer, Anybody, ApiError, Call, Known, Reply, Routes, permissions_elsewhere, route,
};

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(read).guarded(Anybody))
}

/// Who calls.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PrincipalAnswer {
    /// `user`, `key` or `admin_token`.
    #[schema(example = "user")]
    kind: &'static str,
    /// The id; the admin token of the settings has none.
    #[schema(example = "usr_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: Option<String>,
    /// The name.
    #[schema(example = "Ada")]
    name: String,
    /// The e-mail address, of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "ada@acme.com")]
    email: Option<String>,
}

/// A workspace.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct NamedWorkspace {
    /// Its id.
    #[schema(example = "acme")]
    id: String,
    /// What people call it.
    #[schema(example = "Acme")]
    name: String,
}

/// A workspace and what somebody is in it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OwnWorkspace {
    #[serde(flatten)]
    named: NamedWorkspace,
    /// Their role; an operator may have none.
    #[schema(example = "agent")]
    role: Option<&'static str>,
}

/// What is there, and what is not.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Features {
    /// Signing in through an identity provider.
    oidc: bool,
    /// Outgoing mail.
    email: bool,
}

/// Who calls, and what they may do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MeAnswer)]
pub(crate) struct Me {
    /// Who calls.
    principal: PrincipalAnswer,
    /// The workspace of the call: a key's, the one that the header names, or the only one.
    workspace: Option<NamedWorkspace>,
    /// What a user is in it.
    #[schema(example = "agent")]
    role: Option<&'static str>,
    /// Whether they may administer the server.
    operator: bool,
    /// What they may do in that workspace.
    #[schema(example = json!(["inbox:read", "inbox:write"]))]
    permissions: Vec<&'static str>,
    /// A user's workspaces.
    workspaces: Vec<OwnWorkspace>,
    /// Whether `workspaces` may lack some, or their names: a part of the cluster does not answer
    /// now.
    #[schema(example = false)]
    workspaces_incomplete: bool,
    /// Whether the server is a sandbox.
    sandbox: bool,
    /// Engine time.
    #[schema(format = DateTime)]
    now: String,
    /// How far it is ahead of real time.
    #[schema(minimum = 0, example = 0)]
    offset_seconds: u64,
    /// Until when a user may do what needs a recent sign-in, in real time.
    #[schema(format = DateTime)]
    elevated_until: Option<String>,
    /// What is there.
    features: Features,
    /// The server's version.
    #[schema(example = "0.1.0")]
    version: &'static str,
}

/// The answer to `GET /v1/me`.
pub(crate) type MeAnswer = Me;

#[utoipa::path(
    get,
    path = "/v1/me",
    operation_id = "readMe",
    tag = "Operation",
    summary = "Who calls, and what they may do",
    description = "For an API key, a session and an admin token alike.",
    params(("Postrider-Workspace" = Option<String>, Header, description = "With a session: which \
        of one's workspaces")),
    responses((status = 200, description = "The caller", body = MeAnswer))
)]
async fn read(call: Call<Known>) -> Answer {
    Ok(Reply::ok(&Me::of(&call.edge, call.caller.clone()).await?))
}

impl Me {
    pub(crate) async fn of(edge: &Edge, who: Known) -> Result<Self, ApiError> {
        let clock = edge.engine.clock();
        let mut me = Self {
            principal: principal(&who),
            workspace: None,
            role: None,
            operator: false,
            permissions: Vec::new(),
            workspaces: Vec::new(),
            workspaces_incomplete: false,
            sandbox: edge.options.sandbox,
            now: clock.now().to_string(),
            offset_seconds: clock.offset().as_secs(),
            elevated_until: None,
            features: Features { oidc: false, email: edge.options.has_mail },
            version: env!("CARGO_PKG_VERSION"),
        };
        let permissions = match who {
            Known::Key(key) => {
                me.workspace = named_workspace(edge, key.workspace.id()).await?;
                let has =
                    |it: &Permission| it.scope().is_some_and(|scope| key.scopes.contains(scope));
                Permission::ALL.iter().copied().filter(has).collect()
            }
            Known::Administrator { .. } => {
                me.operator = true;
                Permissions::all()
            }
            Known::Person(signed_in, member) => {
                me.operator = signed_in.is_operator();
                me.elevated_until = signed_in.session.elevated_until().map(|at| at.to_string());
                let only = match &member {
                    Some(member) => {
                        me.workspace = named_workspace(edge, member.workspace.id()).await?;
                        me.role = role_in(&signed_in, member.workspace.id());
                        None
                    }
                    None => only_one_elsewhere(edge, &signed_in),
                };
                let known = me.find_workspaces(edge, &signed_in).await?;
                let only = known.into_iter().find(|it| Some(&it.id) == only);
                match (only, member) {
                    (Some(only), _) => {
                        me.role = role_in(&signed_in, &only.id);
                        let permissions = permissions_elsewhere(edge, &signed_in, &only);
                        me.workspace = Some(only.into());
                        permissions.unwrap_or_default()
                    }
                    (None, member) => member.map(|member| member.permissions).unwrap_or_default(),
                }
            }
        };
        let sandbox = edge.options.sandbox;
        let shown = permissions.iter().filter(|it| sandbox || *it != Permission::SandboxUse);
        me.permissions = shown.map(Permission::as_str).collect();
        Ok(me)
    }
}

fn principal(who: &Known) -> PrincipalAnswer {
    let of_token = |id: &Option<Box<str>>, name: &Option<Box<str>>| PrincipalAnswer {
        kind: "admin_token",
        id: id.as_deref().map(str::to_owned),
        name: name.as_deref().unwrap_or("admin token").to_owned(),
        email: None,
    };
    match who {
        Known::Key(key) => PrincipalAnswer {
            kind: "key",
            id: Some(key.key_id.to_string()),
            name: key.key_name(),
            email: None,
        },
        Known::Administrator { id, name } => of_token(id, name),
        Known::Person(SignedIn { person: Some(person), .. }, _) => PrincipalAnswer {
            kind: "user",
            id: Some(person.id.to_string()),
            name: person.name.to_string(),
            email: Some(person.email.to_string()),
        },
        Known::Person(SignedIn { session, .. }, _) => match &session.record().holder {
            SessionHolder::AdminToken { id, name, .. } => of_token(id, name),
            SessionHolder::Person(_) => of_token(&None, &None),
        },
    }
}

fn role_in(signed_in: &SignedIn, id: &WorkspaceId) -> Option<&'static str> {
    Some(signed_in.person.as_ref()?.role_in(id)?.as_str())
}

/// Returns a person's only workspace if it may belong to another engine.
fn only_one_elsewhere<'a>(edge: &Edge, signed_in: &'a SignedIn) -> Option<&'a WorkspaceId> {
    edge.options.elsewhere.as_ref()?;
    match signed_in.person.as_ref()?.memberships.as_slice() {
        [only] => Some(&only.workspace),
        _ => None,
    }
}

impl From<KnownWorkspace> for NamedWorkspace {
    fn from(KnownWorkspace { id, name, .. }: KnownWorkspace) -> Self {
        Self { id: id.to_string(), name }
    }
}

impl Me {
    /// Fills in a person's workspaces, and returns those that are known. If the engine of a
    /// workspace does not answer now, the workspace is shown by its id.
    async fn find_workspaces(
        &mut self,
        edge: &Edge,
        signed_in: &SignedIn,
    ) -> Result<Vec<KnownWorkspace>, ApiError> {
        let memberships = signed_in.person.iter().flat_map(|person| &person.memberships);
        let own: Vec<_> = memberships.map(|it| it.workspace.clone()).collect();
        let asked = (!signed_in.is_operator()).then(|| own.clone());
        let (mut known, refusal) = edge.workspaces(asked).await;
        self.workspaces_incomplete = refusal.is_some();
        match refusal {
            Some(error) if edge.options.elsewhere.is_none() => return Err(error),
            Some(_) if !signed_in.is_operator() => {
                let unknown = own.iter().filter(|id| known.iter().all(|it| it.id != **id));
                let unknown = unknown.map(|id| KnownWorkspace {
                    id: id.clone(),
                    name: id.to_string(),
                    requires_totp: true,
                });
                let unknown: Vec<_> = unknown.collect();
                known.extend(unknown);
            }
            _ => {}
        }
        if !signed_in.is_operator() {
            known.sort_by_key(|it| own.iter().position(|id| *id == it.id));
        }
        let row = |it: &KnownWorkspace| OwnWorkspace {
            role: role_in(signed_in, &it.id),
            named: it.clone().into(),
        };
        self.workspaces = known.iter().map(row).collect();
        Ok(known)
    }
}

/// Returns a workspace with its name; `None` if it is being deleted.
async fn named_workspace(
    edge: &Edge,
    id: &WorkspaceId,
) -> Result<Option<NamedWorkspace>, ApiError> {
    match edge.engine.admin().workspace(id).await {
        Ok(info) => Ok(Some(NamedWorkspace { id: id.to_string(), name: info.name })),
        Err(AdminError::NoSuchWorkspace) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
