//! Maps each endpoint to its use-case: the only place where the contract and the use-cases meet.

use std::sync::Arc;

use axum::body::Body;
use futures::future::BoxFuture;
use http::Response;
use muster_control::{Answer, Cx, PreparedCommand, Result, stream as streams};
use muster_control::{
    adapter, adapter_step, adapter_task, allocation, app, app_version, artifact, audit, capacity, cell,
    entitlement, event, instance, key, me, member, network, node, operation, operator_token, project, quota,
    repository, resource, role_binding, runtime_secret, secret, service_account, session, slot, ssh_key,
    status, tenant, token, trust_policy, user, webhook,
};

use muster_model::artifact::PublisherKey;
use muster_model::cell::SshKey;
use muster_model::secret::ProjectSecret;
use muster_model::{Resource, ResourceVisitor, visit_resources};

use crate::input::Input;
use crate::stream;
use crate::websocket::{self, Serve};

/// A use-case of a request. The input is shared: a command may be prepared again.
type HandlerFn<T> = fn(Cx, Arc<Input>) -> BoxFuture<'static, Result<T>>;

/// Handler of an endpoint.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// A use-case prepares a command; the command pipeline carries it out.
    Command(HandlerFn<PreparedCommand>),
    /// A read returns a response.
    Read(HandlerFn<Answer>),
    /// A machine request carries its own fencing token, so no record of the request is kept.
    Machine(HandlerFn<Answer>),
    /// A stream writes its own body.
    Stream(HandlerFn<Response<Body>>),
    /// A use-case authorizes the socket; the request pipeline then upgrades the connection.
    Socket(HandlerFn<Serve>),
}

/// Returns the handler of a common verb of a resource.
fn resource_handler(id: &str) -> Option<Handler> {
    struct Find<'a>(&'a str, Option<Handler>);
    impl ResourceVisitor for Find<'_> {
        fn visit<R: Resource>(&mut self) {
            let verb = self.0.strip_prefix(R::NOUN).and_then(|rest| rest.strip_prefix('_'));
            let handler = match verb {
                Some("create") => Handler::Command(|cx, input| {
                    Box::pin(async move { resource::create::<R>(&cx, input.body()?).await })
                }),
                Some("list") => Handler::Read(|cx, input| {
                    Box::pin(async move { resource::list::<R>(&cx, input.query()?).await })
                }),
                Some("get") => Handler::Read(|cx, input| {
                    Box::pin(async move { resource::get::<R>(&cx, input.path(0)).await })
                }),
                Some("update") => Handler::Command(|cx, input| {
                    Box::pin(async move { resource::update::<R>(&cx, input.path(0), input.body()?).await })
                }),
                Some("delete") => Handler::Command(|cx, input| {
                    Box::pin(async move { resource::delete::<R>(&cx, input.path(0)).await })
                }),
                _ => return,
            };
            self.1 = Some(handler);
        }
    }
    let mut find = Find(id, None);
    visit_resources(&mut find);
    find.1
}

macro_rules! handlers {
    ($($kind:ident $id:literal => |$cx:ident, $input:ident| $call:expr;)*) => {
        /// Returns the handler of an endpoint.
        pub(crate) fn handler(id: &str) -> Option<Handler> {
            Some(match id {
                $($id => Handler::$kind(|cx, input| Box::pin(async move {
                    let ($cx, $input) = (&cx, &*input);
                    let _ = $input;
                    $call.await
                })),)*
                _ => return resource_handler(id),
            })
        }

        /// Returns the endpoints that have a handler of their own.
        pub fn handled() -> &'static [&'static str] {
            &[$($id,)*]
        }
    };
}

handlers! {
    Read "whoami" => |cx, input| me::whoami(cx);
    Read "can_i" => |cx, input| me::can_i(cx, input.query()?);
    Command "session_create" => |cx, input| session::create(cx, input.body()?);
    Command "session_delete" => |cx, input| session::delete(cx);
    Command "tenant_create" => |cx, input| tenant::create(cx, input.body()?);
    Read "tenant_list" => |cx, input| tenant::list(cx, input.query()?);
    Read "tenant_get" => |cx, input| tenant::get(cx, input.path(0));
    Command "tenant_update" => |cx, input| tenant::update(cx, input.path(0), input.body()?);
    Command "tenant_delete" => |cx, input| tenant::delete(cx, input.path(0), input.query()?);
    Command "tenant_rotate_key" => |cx, input| tenant::rotate_key(cx, input.path(0));
    Command "project_create" => |cx, input| project::create(cx, input.path(0), input.body()?);
    Read "project_list" => |cx, input| project::list(cx, input.query()?);
    Read "project_get" => |cx, input| project::get(cx, input.path(0));
    Command "project_update" => |cx, input| project::update(cx, input.path(0), input.body()?);
    Command "project_delete" => |cx, input| project::delete(cx, input.path(0), input.query()?);
    Command "user_create" => |cx, input| user::create(cx, input.body()?);
    Read "user_list" => |cx, input| user::list(cx, input.query()?);
    Read "user_get" => |cx, input| user::get(cx, input.path(0));
    Command "user_update" => |cx, input| user::update(cx, input.path(0), input.body()?);
    Command "user_set_password" => |cx, input| user::set_password(cx, input.path(0), input.body()?);
    Command "user_delete" => |cx, input| user::delete(cx, input.path(0));
    Command "role_binding_create" => |cx, input| role_binding::create(cx, input.body()?);
    Read "role_binding_list" => |cx, input| role_binding::list(cx, input.query()?);
    Read "role_binding_get" => |cx, input| role_binding::get(cx, input.path(0));
    Command "role_binding_delete" => |cx, input| role_binding::delete(cx, input.path(0));
    Command "service_account_create" => |cx, input| service_account::create(cx, input.path(0), input.body()?);
    Read "service_account_list" => |cx, input| service_account::list(cx, input.path(0), input.query()?);
    Read "service_account_get" => |cx, input| service_account::get(cx, input.path(0), input.path(1));
    Command "service_account_update" =>
        |cx, input| service_account::update(cx, input.path(0), input.path(1), input.body()?);
    Command "service_account_delete" => |cx, input| service_account::delete(cx, input.path(0), input.path(1));
    Command "token_issue" => |cx, input| token::issue(cx, input.body()?);
    Read "token_list" => |cx, input| token::list(cx, input.query()?);
    Read "token_get" => |cx, input| token::get(cx, input.path(0));
    Command "token_rotate" => |cx, input| token::rotate(cx, input.path(0), input.body()?);
    Command "token_revoke" => |cx, input| token::revoke(cx, input.path(0));
    Command "node_enrol" => |cx, input| node::enrol(cx, input.body()?);
    Read "node_list" => |cx, input| node::list(cx, input.query()?);
    Read "node_get" => |cx, input| node::get(cx, input.path(0));
    Command "node_update" => |cx, input| node::update(cx, input.path(0), input.body()?);
    Command "node_approve" => |cx, input| node::approve(cx, input.path(0), input.body()?);
    Command "node_cordon" => |cx, input| node::cordon(cx, input.path(0), input.body()?);
    Command "node_uncordon" => |cx, input| node::uncordon(cx, input.path(0), input.body()?);
    Read "slot_list" => |cx, input| slot::list(cx, input.path(0));
    Command "slot_quarantine" => |cx, input| slot::quarantine(cx, input.path(0), input.body()?);
    Command "slot_approve" => |cx, input| slot::approve(cx, input.path(0), input.body()?);
    Read "quota_get" => |cx, input| quota::get(cx, input.path(0));
    Command "quota_set" => |cx, input| quota::set(cx, input.path(0), input.body()?);
    Read "capacity_get" => |cx, input| capacity::get(cx, input.path(0), input.query()?);
    Command "node_drain" => |cx, input| node::drain(cx, input.path(0), input.body()?);
    Command "node_audit" => |cx, input| node::audit(cx, input.path(0), input.body()?);
    Command "node_retire" => |cx, input| node::retire(cx, input.path(0), input.body()?);
    Command "allocation_create" => |cx, input| allocation::create(cx, input.path(0), input.body()?);
    Read "allocation_list" => |cx, input| allocation::list(cx, input.path(0), input.query()?);
    Read "allocation_get" => |cx, input| allocation::get(cx, input.path(0), input.path(1));
    Read "allocation_timeline" => |cx, input| allocation::timeline(cx, input.path(0), input.path(1));
    Command "allocation_update" => |cx, input| allocation::update(cx, input.path(0), input.path(1), input.body()?);
    Command "allocation_release" => |cx, input| allocation::release(cx, input.path(0), input.path(1), input.body()?);
    Command "allocation_restart" => |cx, input| allocation::restart(cx, input.path(0), input.path(1), input.body()?);
    Command "allocation_resize" => |cx, input| allocation::resize(cx, input.path(0), input.path(1), input.body()?);
    Command "allocation_attest" => |cx, input| allocation::attest(cx, input.path(0), input.path(1), input.body()?);
    Command "cell_create" => |cx, input| cell::create(cx, input.path(0), input.body()?);
    Read "cell_list" => |cx, input| cell::list(cx, input.path(0), input.query()?);
    Read "cell_get" => |cx, input| cell::get(cx, input.path(0), input.path(1));
    Command "cell_restart" => |cx, input| cell::restart(cx, input.path(0), input.path(1), input.body()?);
    Command "cell_destroy" => |cx, input| cell::destroy(cx, input.path(0), input.path(1), input.body()?);
    Read "cell_archived_logs" => |cx, input| cell::archived_logs(cx, input.path(0), input.path(1));
    Read "network_list" => |cx, input| network::list(cx, input.path(0));
    Read "network_get" => |cx, input| network::get(cx, input.path(0), input.path(1));
    Command "ssh_key_create" => |cx, input| ssh_key::create(cx, input.path(0), input.body()?);
    Read "ssh_key_list" => |cx, input| resource::list_in_project::<SshKey>(cx, input.path(0), input.query()?);
    Read "ssh_key_get" => |cx, input| resource::get_in_project::<SshKey>(cx, input.path(0), input.path(1));
    Command "ssh_key_delete" => |cx, input| ssh_key::delete(cx, input.path(0), input.path(1));
    Command "key_create" => |cx, input| key::create(cx, input.path(0), input.body()?);
    Read "key_list" => |cx, input| resource::list_in_project::<PublisherKey>(cx, input.path(0), input.query()?);
    Read "key_get" => |cx, input| resource::get_in_project::<PublisherKey>(cx, input.path(0), input.path(1));
    Command "key_revoke" => |cx, input| key::revoke(cx, input.path(0), input.path(1), input.body()?);
    Read "trust_policy_get" => |cx, input| trust_policy::get(cx, input.path(0));
    Command "trust_policy_set" => |cx, input| trust_policy::set(cx, input.path(0), input.body()?);
    Command "secret_create" => |cx, input| secret::create(cx, input.path(0), input.body()?);
    Read "secret_list" => |cx, input| resource::list_in_project::<ProjectSecret>(cx, input.path(0), input.query()?);
    Read "secret_get" => |cx, input| resource::get_in_project::<ProjectSecret>(cx, input.path(0), input.path(1));
    Command "secret_rotate" => |cx, input| secret::rotate(cx, input.path(0), input.path(1), input.body()?);
    Command "secret_delete" => |cx, input| secret::delete(cx, input.path(0), input.path(1));
    Command "runtime_secret_issue" => |cx, input| runtime_secret::issue(cx, input.path(0), input.body()?);
    Read "runtime_secret_list" => |cx, input| runtime_secret::list(cx, input.path(0), input.query()?);
    Read "runtime_secret_get" => |cx, input| runtime_secret::get(cx, input.path(0), input.path(1));
    Command "runtime_secret_revoke" =>
        |cx, input| runtime_secret::revoke(cx, input.path(0), input.path(1), input.body()?);
    Command "stream_create" => |cx, input| streams::create(cx, input.path(0), input.path(1), input.body()?);
    Command "stream_logs" => |cx, input| streams::logs(cx, input.path(0), input.path(1), input.body()?);
    Socket "stream_join" => |cx, input| websocket::join(cx, input);
    Read "repository_list" => |cx, input| repository::list(cx, input.path(0), input.query()?);
    Read "repository_get" => |cx, input| repository::get(cx, input.path(0), input.path(1));
    Read "repository_tags" => |cx, input| repository::tags(cx, input.path(0), input.path(1), input.query()?);
    Command "repository_delete" => |cx, input| repository::delete(cx, input.path(0), input.path(1));
    Command "artifact_publish" => |cx, input| artifact::publish(cx, input.path(0), input.body()?);
    Read "artifact_list" => |cx, input| artifact::list(cx, input.path(0), input.query()?);
    Read "artifact_get" => |cx, input| artifact::get(cx, input.path(0), input.path(1));
    Command "artifact_verify" => |cx, input| artifact::verify(cx, input.path(0), input.path(1), input.body()?);
    Command "artifact_promote" => |cx, input| artifact::promote(cx, input.path(0), input.path(1), input.body()?);
    Command "artifact_demote" => |cx, input| artifact::demote(cx, input.path(0), input.path(1), input.body()?);
    Read "artifact_references" => |cx, input| artifact::references(cx, input.path(0), input.path(1));
    Command "artifact_delete" => |cx, input| artifact::delete(cx, input.path(0), input.path(1));
    Command "app_create" => |cx, input| app::create(cx, input.path(0), input.body()?);
    Read "app_list" => |cx, input| app::list(cx, input.path(0), input.query()?);
    Read "app_get" => |cx, input| app::get(cx, input.path(0), input.path(1));
    Command "app_update" => |cx, input| app::update(cx, input.path(0), input.path(1), input.body()?);
    Command "app_delete" => |cx, input| app::delete(cx, input.path(0), input.path(1));
    Read "app_compatibility" => |cx, input| app::compatibility(cx, input.path(0), input.path(1), input.query()?);
    Read "app_schema" => |cx, input| app::schema(cx);
    Command "app_version_publish" =>
        |cx, input| app_version::publish(cx, input.path(0), input.path(1), input.body()?);
    Read "app_version_list" => |cx, input| app_version::list(cx, input.path(0), input.path(1), input.query()?);
    Read "app_version_get" => |cx, input| app_version::get(cx, input.path(0), input.path(1), input.path(2));
    Command "app_version_promote" =>
        |cx, input| app_version::promote(cx, input.path(0), input.path(1), input.path(2), input.body()?);
    Command "app_version_demote" =>
        |cx, input| app_version::demote(cx, input.path(0), input.path(1), input.path(2), input.body()?);
    Command "entitlement_grant" => |cx, input| entitlement::grant(cx, input.path(0), input.body()?);
    Read "entitlement_list" => |cx, input| entitlement::list(cx, input.path(0), input.query()?);
    Read "entitlement_get" => |cx, input| entitlement::get(cx, input.path(0), input.path(1));
    Command "entitlement_revoke" => |cx, input| entitlement::revoke(cx, input.path(0), input.path(1), input.body()?);
    Command "operator_token_mint" => |cx, input| operator_token::mint(cx, input.path(0), input.body()?);
    Read "adapter_list" => |cx, input| adapter::list(cx, input.path(0), input.query()?);
    Command "instance_create" => |cx, input| instance::create(cx, input.path(0), input.body()?);
    Command "instance_apply" => |cx, input| instance::apply(cx, input.path(0), input.body()?);
    Read "instance_list" => |cx, input| instance::list(cx, input.path(0), input.query()?);
    Read "instance_get" => |cx, input| instance::get(cx, input.path(0), input.path(1));
    Command "instance_update" => |cx, input| instance::update(cx, input.path(0), input.path(1), input.body()?);
    Command "instance_scale" => |cx, input| instance::scale(cx, input.path(0), input.path(1), input.body()?);
    Command "instance_upgrade" => |cx, input| instance::upgrade(cx, input.path(0), input.path(1), input.body()?);
    Command "instance_rollback" => |cx, input| instance::rollback(cx, input.path(0), input.path(1), input.body()?);
    Command "instance_decommission" =>
        |cx, input| instance::decommission(cx, input.path(0), input.path(1), input.body()?);
    Read "instance_endpoints" => |cx, input| instance::endpoints(cx, input.path(0), input.path(1));
    Read "member_list" => |cx, input| member::list(cx, input.path(0), input.path(1), input.query()?);
    Read "member_get" => |cx, input| member::get(cx, input.path(0), input.path(1), input.path(2));
    Command "member_add" => |cx, input| member::add(cx, input.path(0), input.path(1), input.body()?);
    Command "member_drain" => |cx, input| member::drain(cx, input.path(0), input.path(1), input.body()?);
    Command "member_resume" => |cx, input| member::resume(cx, input.path(0), input.path(1), input.body()?);
    Command "member_remove" => |cx, input| member::remove(cx, input.path(0), input.path(1), input.body()?);
    Command "member_replace" => |cx, input| member::replace(cx, input.path(0), input.path(1), input.body()?);
    Command "member_recover" => |cx, input| member::recover(cx, input.path(0), input.path(1), input.body()?);
    Machine "adapter_step_lease" => |cx, input| adapter_step::lease(cx, input.path(0), input.body()?);
    Read "adapter_step_list" => |cx, input| adapter_step::list(cx, input.path(0), input.query()?);
    Read "adapter_step_get" => |cx, input| adapter_step::get(cx, input.path(0), input.path(1));
    Machine "adapter_step_heartbeat" =>
        |cx, input| adapter_step::heartbeat(cx, input.path(0), input.path(1), input.body()?);
    Machine "adapter_step_progress" =>
        |cx, input| adapter_step::progress(cx, input.path(0), input.path(1), input.body()?);
    Machine "adapter_step_complete" =>
        |cx, input| adapter_step::complete(cx, input.path(0), input.path(1), input.body()?);
    Machine "adapter_step_fail" => |cx, input| adapter_step::fail(cx, input.path(0), input.path(1), input.body()?);
    Machine "adapter_task_create" =>
        |cx, input| adapter_task::create(cx, input.path(0), input.path(1), input.body()?);
    Read "adapter_task_get" =>
        |cx, input| adapter_task::get(cx, input.path(0), input.path(1), input.path(2), input.query()?);
    Read "operation_list" => |cx, input| operation::list(cx, input.query()?);
    Read "operation_get" => |cx, input| operation::get(cx, input.path(0), input.query()?);
    Command "operation_cancel" => |cx, input| operation::cancel(cx, input.path(0), input.body()?);
    Command "operation_resolve" => |cx, input| operation::resolve(cx, input.path(0), input.body()?);
    Read "event_list" => |cx, input| event::list(cx, input.query()?);
    Stream "event_stream" => |cx, input| stream::events(cx, input);
    Read "instance_event_list" => |cx, input| event::instance_list(cx, input.path(0), input.path(1), input.query()?);
    Stream "instance_event_stream" => |cx, input| stream::instance_events(cx, input);
    Command "webhook_create" => |cx, input| webhook::create(cx, input.body()?);
    Read "webhook_list" => |cx, input| webhook::list(cx, input.query()?);
    Read "webhook_get" => |cx, input| webhook::get(cx, input.path(0));
    Command "webhook_update" => |cx, input| webhook::update(cx, input.path(0), input.body()?);
    Command "webhook_delete" => |cx, input| webhook::delete(cx, input.path(0));
    Read "webhook_deliveries" => |cx, input| webhook::deliveries(cx, input.path(0), input.query()?);
    Read "audit_list" => |cx, input| audit::list(cx, input.query()?);
    Stream "audit_export" => |cx, input| stream::audit(cx, input);
    Read "audit_head" => |cx, input| audit::head(cx, input.query()?);
    Read "status_get" => |cx, input| status::get(cx);
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::Kind;

    #[test]
    fn every_operation_has_a_handler_of_its_kind_and_nothing_else_is_handled() {
        let operations = muster_api::endpoints();
        for operation in &operations {
            let handler = handler(operation.id).unwrap_or_else(|| panic!("{} has no handler", operation.id));
            let command = matches!(handler, Handler::Command(_));
            assert_eq!(command, operation.kind == Kind::Command, "{}", operation.id);
        }
        assert_eq!(handled().len() + muster_api::resource::endpoints().len(), operations.len());
    }
}
