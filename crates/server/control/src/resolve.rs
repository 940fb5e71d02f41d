//! Resolution of references (ids or names) in requests; absent and invisible resources yield the same error.
use muster_api::Code;
use muster_authz::PrincipalKind;
use muster_db::ProjectsOf;
use muster_ids::{
    AllocationId, CellId, InstanceId, MemberId, NodeId, OperationId, ProjectId, ServiceAccountId, TenantId,
    TypedId as _, UserId,
};
use muster_model::allocation::Allocation;
use muster_model::cell::Cell;
use muster_model::instance::Instance;
use muster_model::member::Member;
use muster_model::node::{Node, Slot};
use muster_model::operation::Operation;
use muster_model::token::Token;
use muster_model::webhook::Webhook;
use muster_model::{Project, RoleBinding, Scope, ServiceAccount, Tenant, User};

use crate::{Cx, Error, Result};

impl Cx {
    /// Returns a tenant by id or slug.
    pub(crate) async fn tenant(&self, reference: &str) -> Result<Tenant> {
        let store = &self.platform.store;
        let found = match reference.parse::<TenantId>() {
            Ok(id) => store.tenant_lookup(id).await,
            Err(_) => store.tenant_by_slug(reference).await,
        };
        let tenant = found?.ok_or_else(|| Error::not_found("tenant"))?;
        self.only_if_seen(Scope::Tenant(tenant.id), "tenant")?;
        Ok(tenant)
    }

    /// Returns a project by id, by `tenant.name`, or by a name that is unique among those visible to the actor.
    pub(crate) async fn project(&self, reference: &str) -> Result<Project> {
        let store = &self.platform.store;
        let found = match (reference.parse::<ProjectId>(), reference.split_once('.')) {
            (Ok(id), _) => store.project_lookup(id).await?,
            (Err(_), Some((slug, name))) => store.project_by_qualified_name(slug, name).await?,
            (Err(_), None) => {
                let mut found = store.project_by_name(reference, self.projects_seen()?).await?;
                if found.len() > 1 {
                    let names: Vec<String> = found
                        .iter()
                        .map(|project| format!("{}.{}", project.tenant_slug, project.name))
                        .collect();
                    return Err(Error::new(
                        Code::AmbiguousName,
                        format!("several projects have this name; choose one: {}", names.join(", ")),
                    ));
                }
                found.pop()
            }
        };
        let project = found.ok_or_else(|| Error::not_found("project"))?;
        self.only_if_seen(project.scope(), "project")?;
        Ok(project)
    }

    /// Returns a project's id and scope, where nothing else is needed.
    pub(crate) async fn project_scope(&self, reference: &str) -> Result<(ProjectId, Scope)> {
        if let Ok(id) = reference.parse::<ProjectId>()
            && let Some(tenant) = self.platform.names.tenant(id)
        {
            let scope = Scope::Project(tenant, id);
            self.only_if_seen(scope, "project")?;
            return Ok((id, scope));
        }
        let project = self.project(reference).await?;
        self.platform.names.remember_tenant(project.id, project.tenant_id);
        Ok((project.id, project.scope()))
    }

    /// Returns the projects visible to the actor.
    pub(crate) fn projects_seen(&self) -> Result<ProjectsOf> {
        Ok(match &self.principal()?.kind {
            PrincipalKind::User { .. } if self.is_operator() => ProjectsOf::All,
            PrincipalKind::User { id, .. } => ProjectsOf::User(*id),
            PrincipalKind::ServiceAccount { project, .. } => ProjectsOf::Only(*project),
        })
    }

    /// Returns a user by id or email address. Platform users are visible only to operators and to themselves.
    pub(crate) async fn user(&self, reference: &str) -> Result<User> {
        let store = &self.platform.store;
        let email = reference.to_lowercase();
        let found = match (reference.parse::<UserId>(), self.principal()?.tenant()) {
            (Ok(id), _) => store.user_lookup(id).await.map(|user| user.into_iter().collect()),
            (Err(_), Some(tenant)) => {
                store.user_by_email(Some(tenant), &email).await.map(|user| user.into_iter().collect())
            }
            // An actor without a tenant may have access to users of several; two matches suffice to detect an ambiguous
            // address.
            (Err(_), None) => store.users_by_email(&email, 2).await,
        };
        let mut seen = Vec::new();
        for user in found? {
            let is_seen = self.user_id() == Some(user.id)
                || match user.scope() {
                    Scope::Platform => self.is_operator(),
                    scope => self.principal()?.sees(scope),
                };
            seen.extend(is_seen.then_some(user));
        }
        if seen.len() > 1 {
            let detail = "several people have this address, in different tenants: name the person by id";
            return Err(Error::new(Code::AmbiguousName, detail));
        }
        seen.pop().ok_or_else(|| Error::not_found("person"))
    }

    /// Returns a service account of a project, by id or name.
    pub(crate) async fn service_account(
        &self,
        project: ProjectId,
        reference: &str,
    ) -> Result<ServiceAccount> {
        let store = &self.platform.store;
        let found = match reference.parse::<ServiceAccountId>() {
            Ok(id) => store.service_account_lookup(id).await,
            Err(_) => store.service_account_by_name(project, reference).await,
        };
        found?
            .filter(|account| account.project_id == project)
            .ok_or_else(|| Error::not_found("service account"))
    }

    /// Returns a service account by id alone.
    pub(crate) async fn service_account_anywhere(&self, reference: &str) -> Result<ServiceAccount> {
        let absent = || Error::not_found("service account");
        let id: ServiceAccountId = reference.parse().map_err(|_| absent())?;
        let found = self.platform.store.service_account_lookup(id).await?;
        let account = found.ok_or_else(absent)?;
        self.only_if_seen(account.scope(), "service account")?;
        Ok(account)
    }

    /// Returns a node by id, or by the name of one that is not retired. Nodes belong to no tenant, so callers must authorize
    /// at platform scope first.
    pub(crate) async fn node(&self, reference: &str) -> Result<Node> {
        let store = &self.platform.store;
        let found = match reference.parse::<NodeId>() {
            Ok(id) => store.node_lookup(id).await,
            Err(_) => store.node_by_name(reference).await,
        };
        found?.ok_or_else(|| Error::not_found("node"))
    }

    /// Returns a slot by id; as with nodes, `authorize` comes first.
    pub(crate) async fn slot(&self, reference: &str) -> Result<Slot> {
        let absent = || Error::not_found("slot");
        let id = reference.parse().map_err(|_| absent())?;
        self.platform.store.slot_lookup(id).await?.ok_or_else(absent)
    }

    /// Returns a role binding by id.
    pub(crate) async fn role_binding(&self, reference: &str) -> Result<RoleBinding> {
        let absent = || Error::not_found("role binding");
        let id = reference.parse().map_err(|_| absent())?;
        let found = self.platform.store.role_binding_lookup(id).await?;
        let binding = found.ok_or_else(absent)?;
        let seen = match binding.scope {
            Scope::Platform => self.is_operator(),
            scope => self.principal()?.sees(scope),
        };
        if seen { Ok(binding) } else { Err(absent()) }
    }

    /// Returns a webhook by id.
    pub(crate) async fn webhook(&self, reference: &str) -> Result<Webhook> {
        let absent = || Error::not_found("webhook");
        let id = reference.parse().map_err(|_| absent())?;
        let found = self.platform.store.webhook_lookup(id).await?;
        let webhook = found.ok_or_else(absent)?;
        let seen = match webhook.scope {
            Scope::Platform => self.is_operator(),
            scope => self.principal()?.sees(scope),
        };
        if seen { Ok(webhook) } else { Err(absent()) }
    }

    /// Returns a token by id, with its subject's scope and whether it is the actor's own, which is always visible.
    pub(crate) async fn token(&self, reference: &str) -> Result<(Token, Scope, bool)> {
        let absent = || Error::not_found("token");
        let id = reference.parse().map_err(|_| absent())?;
        let store = &self.platform.store;
        let token = store.token_lookup(id).await?.ok_or_else(absent)?;
        let (scope, own) = match (token.subject, &self.principal()?.kind) {
            (muster_model::token::Subject::User(id), kind) => {
                let user = store.user_lookup(id).await?.ok_or_else(absent)?;
                (user.scope(), matches!(kind, PrincipalKind::User { id: me, .. } if *me == id))
            }
            (muster_model::token::Subject::ServiceAccount(id), kind) => {
                let account = store.service_account_lookup(id).await?.ok_or_else(absent)?;
                (account.scope(), matches!(kind, PrincipalKind::ServiceAccount { id: me, .. } if *me == id))
            }
        };
        let seen = own
            || match scope {
                Scope::Platform => self.is_operator(),
                scope => self.principal()?.sees(scope),
            };
        if seen { Ok((token, scope, own)) } else { Err(absent()) }
    }

    /// Returns an allocation of a project, by id or by the name of a live one.
    pub(crate) async fn allocation(&self, project: &str, reference: &str) -> Result<Allocation> {
        let (project, _) = self.project_scope(project).await?;
        let store = &self.platform.store;
        let found = match reference.parse::<AllocationId>() {
            Ok(id) => store.allocation_lookup(id).await,
            Err(_) => store.allocation_by_name(project, reference).await,
        };
        found?
            .filter(|allocation| allocation.project_id == project)
            .ok_or_else(|| Error::not_found("allocation"))
    }

    /// Returns an allocation for members of `instance`. An app's adapter can use only those that the instance already has:
    /// it must not place members beside unrelated workloads of the consumer.
    pub(crate) async fn allocation_for(
        &self,
        project: &str,
        reference: &str,
        instance: &Instance,
    ) -> Result<Allocation> {
        let allocation = self.allocation(project, reference).await?;
        if self.operates().is_none() {
            return Ok(allocation);
        }
        let store = &self.platform.store;
        let members = store.member_in(allocation.id).await?;
        let components = store.component_list(instance.id).await?;
        let has_it = members.iter().any(|member| member.instance_id == instance.id)
            || components.iter().any(|component| component.allocation_id == Some(allocation.id));
        if has_it { Ok(allocation) } else { Err(Error::not_found("allocation")) }
    }

    /// Ensures that an app's adapter changes only an allocation that has members of an instance that it operates.
    pub(crate) async fn ensure_operated(&self, allocation: &Allocation) -> Result<()> {
        if self.operates().is_none() {
            return Ok(());
        }
        let store = &self.platform.store;
        for member in store.member_in(allocation.id).await? {
            let instance = store.instance_lookup(member.instance_id).await?;
            if instance.is_some_and(|instance| self.reaches(instance.operator_account_id)) {
                return Ok(());
            }
        }
        Err(Error::not_found("allocation"))
    }

    /// Returns a cell of a project, by id or by name: the live one, or else the last. A member's id resolves to its cell;
    /// the cell has the member's name already.
    pub(crate) async fn cell(&self, project: &str, reference: &str) -> Result<Cell> {
        let (project, _) = self.project_scope(project).await?;
        let store = &self.platform.store;
        let found = match (reference.parse::<CellId>(), reference.parse::<MemberId>()) {
            (Ok(id), _) => store.cell_lookup(id).await,
            (Err(_), Ok(member)) => match store.member_lookup(member).await? {
                Some(Member { cell_id: Some(id), .. }) => store.cell_lookup(id).await,
                _ => Ok(None),
            },
            (Err(_), Err(_)) => store.cell_by_name(project, reference).await,
        };
        found?.filter(|cell| cell.project_id == project).ok_or_else(|| Error::not_found("cell"))
    }

    /// Returns an instance of a project, by id or by name: the live one, or else the last.
    pub(crate) async fn instance(&self, project: &str, reference: &str) -> Result<Instance> {
        let (project, _) = self.project_scope(project).await?;
        let store = &self.platform.store;
        let found = match reference.parse::<InstanceId>() {
            Ok(id) => store.instance_lookup(id).await,
            Err(_) => store.instance_by_name(project, reference).await,
        };
        found?
            .filter(|instance| instance.project_id == project && self.reaches(instance.operator_account_id))
            .ok_or_else(|| Error::not_found("instance"))
    }

    /// Returns a member of an instance, by id or by name: the live one, or else the last.
    pub(crate) async fn member(&self, instance: &Instance, reference: &str) -> Result<Member> {
        let store = &self.platform.store;
        let found = match reference.parse::<MemberId>() {
            Ok(id) => store.member_lookup(id).await,
            Err(_) => store.member_by_name(instance.id, reference).await,
        };
        found?.filter(|member| member.instance_id == instance.id).ok_or_else(|| Error::not_found("member"))
    }

    /// Returns an operation by id; those of the platform are visible only to operators.
    pub(crate) async fn operation(&self, reference: &str) -> Result<Operation> {
        let absent = || Error::not_found("operation");
        let id = reference.parse::<OperationId>().map_err(|_| absent())?;
        let found = self.platform.store.operation_lookup(id).await?;
        let operation = found.ok_or_else(absent)?;
        let seen = match operation.scope() {
            Scope::Platform => self.is_operator(),
            scope => self.principal()?.sees(scope),
        };
        if seen && self.concerns(&operation).await? { Ok(operation) } else { Err(absent()) }
    }

    /// Reports whether an operation is visible to the actor: an app's adapter can access only those on resources that it
    /// operates.
    async fn concerns(&self, operation: &Operation) -> Result<bool> {
        if self.operates().is_none() {
            return Ok(true);
        }
        let store = &self.platform.store;
        let instance = match operation.subject_kind.as_str() {
            "instance" => Some(InstanceId::from_uuid(operation.subject_id)),
            "member" => {
                let member = store.member_lookup(MemberId::from_uuid(operation.subject_id)).await;
                member?.map(|member| member.instance_id)
            }
            _ => None,
        };
        let Some(instance) = instance else { return Ok(false) };
        let found = store.instance_lookup(instance).await?;
        Ok(found.is_some_and(|instance| self.reaches(instance.operator_account_id)))
    }

    /// Returns the scope named by `tenant` and `project` of a request; the platform with neither.
    pub(crate) async fn scope(&self, tenant: Option<&str>, project: Option<&str>) -> Result<Scope> {
        match (tenant, project) {
            (Some(_), Some(_)) => Err(Error::field(
                "/project",
                "give a tenant or a project, not both; `tenant.project` names one of a tenant",
            )),
            (Some(tenant), None) => Ok(Scope::Tenant(self.tenant(tenant).await?.id)),
            (None, Some(project)) => Ok(self.project_scope(project).await?.1),
            (None, None) => Ok(Scope::Platform),
        }
    }

    fn only_if_seen(&self, scope: Scope, noun: &str) -> Result<()> {
        if self.principal()?.sees(scope) { Ok(()) } else { Err(Error::not_found(noun)) }
    }
}
