//! Which use-case answers which operation: the only place where the contract and the use-cases meet.

use axum::body::Body;
use futures::future::BoxFuture;
use http::Response;
use muster_control::{Answer, Commit, Cx, Result};
use muster_control::{
    audit, event, me, project, role_binding, service_account, session, status, tenant, token, user, webhook,
};

use crate::input::Input;
use crate::stream;

/// How an operation is answered.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// A command prepares; the door does the rest.
    Command(fn(Cx, Input) -> BoxFuture<'static, Result<Commit>>),
    /// A read answers.
    Read(fn(Cx, Input) -> BoxFuture<'static, Result<Answer>>),
    /// A stream writes its own body.
    Stream(fn(Cx, Input) -> BoxFuture<'static, Result<Response<Body>>>),
}

macro_rules! handlers {
    ($($kind:ident $id:literal => |$cx:ident, $input:ident| $call:expr;)*) => {
        /// The handler of an operation.
        pub(crate) fn handler(id: &str) -> Option<Handler> {
            Some(match id {
                $($id => Handler::$kind(|cx, input| Box::pin(async move {
                    let ($cx, $input) = (&cx, &input);
                    let _ = $input;
                    $call.await
                })),)*
                _ => return None,
            })
        }

        /// The operations that have a handler.
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
    Read "event_list" => |cx, input| event::list(cx, input.query()?);
    Stream "event_stream" => |cx, input| stream::events(cx, input);
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
        let operations = muster_api::operations();
        for operation in &operations {
            let handler = handler(operation.id).unwrap_or_else(|| panic!("{} has no handler", operation.id));
            let command = matches!(handler, Handler::Command(_));
            assert_eq!(command, operation.kind == Kind::Command, "{}", operation.id);
        }
        assert_eq!(handled().len(), operations.len());
    }
}
