//! The typed client. Generated from `openapi/platform.json` by `make bless`; edit the API crate instead.

#[allow(unused_imports)]
pub use progenitor_client::{ByteStream, ClientInfo, Error, ResponseValue};
#[allow(unused_imports)]
use progenitor_client::{encode_path, ClientHooks, OperationInfo, RequestBuilderExt};
/// Types used as operation parameters and responses.
#[allow(clippy::all)]
pub mod types {
    ///Who asked.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct AuditActor {
        ///The actor's id.
        pub id: ::std::string::String,
        ///`user`, `service_account` or `platform`.
        pub kind: ::std::string::String,
        ///Its name at the time.
        pub name: ::std::string::String,
    }
    ///A record in its place of the chain.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct AuditEntry {
        ///The chain: a tenant's id, or `platform`.
        pub chain: ::std::string::String,
        ///SHA-256 over the previous hash, the number and the record's text.
        pub hash: ::std::string::String,
        ///The hash of the entry before.
        pub previous_hash: ::std::string::String,
        pub record: AuditRecord,
        ///Its number, from 1, without gaps.
        pub sequence: i64,
    }
    ///The end of a chain as far as it is sealed.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct AuditHead {
        ///The chain.
        pub chain: ::std::string::String,
        ///Its hash. Keep it elsewhere, and a later export can be checked against it.
        pub hash: ::std::string::String,
        ///That entry's hash, which the first kept entry builds on.
        pub pruned_hash: ::std::string::String,
        ///The last number that retention removed.
        pub pruned_sequence: i64,
        ///The last number.
        pub sequence: i64,
    }
    ///`AuditId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct AuditId(pub ::std::string::String);
    impl ::std::ops::Deref for AuditId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<AuditId> for ::std::string::String {
        fn from(value: AuditId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for AuditId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for AuditId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for AuditId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///How a command ended.
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Copy,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    pub enum AuditOutcome {
        #[serde(rename = "succeeded")]
        Succeeded,
        #[serde(rename = "refused")]
        Refused,
        #[serde(rename = "denied")]
        Denied,
        /// A word that this client is too old to know.
        #[serde(rename = "unrecognised", other)]
        Unrecognised,
    }
    impl ::std::fmt::Display for AuditOutcome {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            match *self {
                Self::Succeeded => f.write_str("succeeded"),
                Self::Refused => f.write_str("refused"),
                Self::Denied => f.write_str("denied"),
                Self::Unrecognised => f.write_str("unrecognised"),
            }
        }
    }
    impl ::std::str::FromStr for AuditOutcome {
        type Err = self::error::ConversionError;
        fn from_str(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            match value {
                "succeeded" => Ok(Self::Succeeded),
                "refused" => Ok(Self::Refused),
                "denied" => Ok(Self::Denied),
                _ => Err("invalid value".into()),
            }
        }
    }
    impl ::std::convert::TryFrom<&str> for AuditOutcome {
        type Error = self::error::ConversionError;
        fn try_from(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    impl ::std::convert::TryFrom<::std::string::String> for AuditOutcome {
        type Error = self::error::ConversionError;
        fn try_from(
            value: ::std::string::String,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    ///Some entries.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct AuditPage {
        ///In order.
        pub items: ::std::vec::Vec<AuditEntry>,
        ///Give it as `after` to go on.
        pub next_after: i64,
        ///The last number of the chain that is sealed.
        pub sealed_up_to: i64,
    }
    ///What is hashed: who asked for what, with what result.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct AuditRecord {
        ///What, as `noun.verb`.
        pub action: ::std::string::String,
        pub actor: AuditActor,
        ///When.
        pub at: ::jiff::Timestamp,
        ///The problem's code, where it did not succeed.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub code: ::std::option::Option<::std::string::String>,
        ///The thread through request, events and logs.
        pub correlation_id: ::std::string::String,
        ///How many times, for refusals that were counted together.
        pub count: i64,
        ///What changed, without secrets.
        pub detail: ::serde_json::Map<::std::string::String, ::serde_json::Value>,
        pub id: AuditId,
        pub outcome: AuditOutcome,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub project_id: ::std::option::Option<ProjectId>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub target: ::std::option::Option<AuditTarget>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub tenant_id: ::std::option::Option<TenantId>,
    }
    ///What was acted on.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct AuditTarget {
        ///Its id, or the words of the request where nothing was found.
        pub id: ::std::string::String,
        ///The noun.
        pub kind: ::std::string::String,
        ///Its name.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub name: ::std::option::Option<::std::string::String>,
    }
    ///The answer, with its reason.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct CanI {
        ///Yes or no.
        pub allowed: bool,
        ///What was asked.
        pub permission: ::std::string::String,
        ///Why.
        pub reason: ::std::string::String,
    }
    ///One thing that was looked at.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct Check {
        ///What was seen.
        pub detail: ::std::string::String,
        ///What.
        pub name: ::std::string::String,
        ///Whether it is in order.
        pub ok: bool,
    }
    ///The closed list of codes. A code is stable; its text may improve.
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Copy,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    pub enum Code {
        #[serde(rename = "malformed_request")]
        MalformedRequest,
        #[serde(rename = "invalid_request")]
        InvalidRequest,
        #[serde(rename = "bad_cursor")]
        BadCursor,
        #[serde(rename = "idempotency_key_required")]
        IdempotencyKeyRequired,
        #[serde(rename = "unauthenticated")]
        Unauthenticated,
        #[serde(rename = "permission_denied")]
        PermissionDenied,
        #[serde(rename = "csrf_required")]
        CsrfRequired,
        #[serde(rename = "origin_not_allowed")]
        OriginNotAllowed,
        #[serde(rename = "not_found")]
        NotFound,
        #[serde(rename = "method_not_allowed")]
        MethodNotAllowed,
        #[serde(rename = "request_timeout")]
        RequestTimeout,
        #[serde(rename = "name_taken")]
        NameTaken,
        #[serde(rename = "ambiguous_name")]
        AmbiguousName,
        #[serde(rename = "not_empty")]
        NotEmpty,
        #[serde(rename = "invalid_state")]
        InvalidState,
        #[serde(rename = "last_operator")]
        LastOperator,
        #[serde(rename = "version_mismatch")]
        VersionMismatch,
        #[serde(rename = "body_too_large")]
        BodyTooLarge,
        #[serde(rename = "unsupported_media_type")]
        UnsupportedMediaType,
        #[serde(rename = "host_not_allowed")]
        HostNotAllowed,
        #[serde(rename = "idempotency_key_reused")]
        IdempotencyKeyReused,
        #[serde(rename = "url_not_allowed")]
        UrlNotAllowed,
        #[serde(rename = "version_required")]
        VersionRequired,
        #[serde(rename = "rate_limited")]
        RateLimited,
        #[serde(rename = "internal")]
        Internal,
        #[serde(rename = "unavailable")]
        Unavailable,
        /// A word that this client is too old to know.
        #[serde(rename = "unrecognised", other)]
        Unrecognised,
    }
    impl ::std::fmt::Display for Code {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            match *self {
                Self::MalformedRequest => f.write_str("malformed_request"),
                Self::InvalidRequest => f.write_str("invalid_request"),
                Self::BadCursor => f.write_str("bad_cursor"),
                Self::IdempotencyKeyRequired => f.write_str("idempotency_key_required"),
                Self::Unauthenticated => f.write_str("unauthenticated"),
                Self::PermissionDenied => f.write_str("permission_denied"),
                Self::CsrfRequired => f.write_str("csrf_required"),
                Self::OriginNotAllowed => f.write_str("origin_not_allowed"),
                Self::NotFound => f.write_str("not_found"),
                Self::MethodNotAllowed => f.write_str("method_not_allowed"),
                Self::RequestTimeout => f.write_str("request_timeout"),
                Self::NameTaken => f.write_str("name_taken"),
                Self::AmbiguousName => f.write_str("ambiguous_name"),
                Self::NotEmpty => f.write_str("not_empty"),
                Self::InvalidState => f.write_str("invalid_state"),
                Self::LastOperator => f.write_str("last_operator"),
                Self::VersionMismatch => f.write_str("version_mismatch"),
                Self::BodyTooLarge => f.write_str("body_too_large"),
                Self::UnsupportedMediaType => f.write_str("unsupported_media_type"),
                Self::HostNotAllowed => f.write_str("host_not_allowed"),
                Self::IdempotencyKeyReused => f.write_str("idempotency_key_reused"),
                Self::UrlNotAllowed => f.write_str("url_not_allowed"),
                Self::VersionRequired => f.write_str("version_required"),
                Self::RateLimited => f.write_str("rate_limited"),
                Self::Internal => f.write_str("internal"),
                Self::Unavailable => f.write_str("unavailable"),
                Self::Unrecognised => f.write_str("unrecognised"),
            }
        }
    }
    impl ::std::str::FromStr for Code {
        type Err = self::error::ConversionError;
        fn from_str(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            match value {
                "malformed_request" => Ok(Self::MalformedRequest),
                "invalid_request" => Ok(Self::InvalidRequest),
                "bad_cursor" => Ok(Self::BadCursor),
                "idempotency_key_required" => Ok(Self::IdempotencyKeyRequired),
                "unauthenticated" => Ok(Self::Unauthenticated),
                "permission_denied" => Ok(Self::PermissionDenied),
                "csrf_required" => Ok(Self::CsrfRequired),
                "origin_not_allowed" => Ok(Self::OriginNotAllowed),
                "not_found" => Ok(Self::NotFound),
                "method_not_allowed" => Ok(Self::MethodNotAllowed),
                "request_timeout" => Ok(Self::RequestTimeout),
                "name_taken" => Ok(Self::NameTaken),
                "ambiguous_name" => Ok(Self::AmbiguousName),
                "not_empty" => Ok(Self::NotEmpty),
                "invalid_state" => Ok(Self::InvalidState),
                "last_operator" => Ok(Self::LastOperator),
                "version_mismatch" => Ok(Self::VersionMismatch),
                "body_too_large" => Ok(Self::BodyTooLarge),
                "unsupported_media_type" => Ok(Self::UnsupportedMediaType),
                "host_not_allowed" => Ok(Self::HostNotAllowed),
                "idempotency_key_reused" => Ok(Self::IdempotencyKeyReused),
                "url_not_allowed" => Ok(Self::UrlNotAllowed),
                "version_required" => Ok(Self::VersionRequired),
                "rate_limited" => Ok(Self::RateLimited),
                "internal" => Ok(Self::Internal),
                "unavailable" => Ok(Self::Unavailable),
                _ => Err("invalid value".into()),
            }
        }
    }
    impl ::std::convert::TryFrom<&str> for Code {
        type Error = self::error::ConversionError;
        fn try_from(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    impl ::std::convert::TryFrom<::std::string::String> for Code {
        type Error = self::error::ConversionError;
        fn try_from(
            value: ::std::string::String,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    ///`DeliveryId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct DeliveryId(pub ::std::string::String);
    impl ::std::ops::Deref for DeliveryId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<DeliveryId> for ::std::string::String {
        fn from(value: DeliveryId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for DeliveryId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for DeliveryId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for DeliveryId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///Something that happened, as a CloudEvent.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct Event {
        ///Whose command caused it.
        pub actorid: ::std::string::String,
        ///The thread through request, audit and logs.
        pub correlationid: ::std::string::String,
        ///The details.
        pub data: ::serde_json::Map<::std::string::String, ::serde_json::Value>,
        pub id: EventId,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub projectid: ::std::option::Option<ProjectId>,
        ///Its number in the stream that was asked for: from 1, without gaps.
        pub sequence: i64,
        ///Who says it.
        pub source: ::std::string::String,
        ///CloudEvents' version.
        pub specversion: ::std::string::String,
        ///The resource's path.
        pub subject: ::std::string::String,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub tenantid: ::std::option::Option<TenantId>,
        ///When it happened.
        pub time: ::jiff::Timestamp,
        ///What kind of event.
        #[serde(rename = "type")]
        pub type_: ::std::string::String,
    }
    ///`EventId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct EventId(pub ::std::string::String);
    impl ::std::ops::Deref for EventId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<EventId> for ::std::string::String {
        fn from(value: EventId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for EventId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for EventId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for EventId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///Some events.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct EventPage {
        ///In order, without gaps unless filtered.
        pub items: ::std::vec::Vec<Event>,
        ///Give it as `after` to go on.
        pub next_after: i64,
        ///The last number of the stream that is sealed; what happened later is not numbered yet.
        pub sealed_up_to: i64,
    }
    ///One fault of a request, by the place where it is.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct FieldError {
        ///What is wrong there.
        pub detail: ::std::string::String,
        ///A JSON pointer into the body, or `query/NAME`, `header/NAME`, `path/NAME`.
        pub pointer: ::std::string::String,
    }
    ///A role and where it counts.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct HeldRole {
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub project_id: ::std::option::Option<ProjectId>,
        pub role: Role,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub tenant_id: ::std::option::Option<TenantId>,
    }
    ///`Labels`
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    #[serde(transparent)]
    pub struct Labels(
        pub ::std::collections::BTreeMap<::std::string::String, ::std::string::String>,
    );
    impl ::std::ops::Deref for Labels {
        type Target = ::std::collections::BTreeMap<
            ::std::string::String,
            ::std::string::String,
        >;
        fn deref(
            &self,
        ) -> &::std::collections::BTreeMap<
            ::std::string::String,
            ::std::string::String,
        > {
            &self.0
        }
    }
    impl ::std::convert::From<Labels>
    for ::std::collections::BTreeMap<::std::string::String, ::std::string::String> {
        fn from(value: Labels) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<
        ::std::collections::BTreeMap<::std::string::String, ::std::string::String>,
    > for Labels {
        fn from(
            value: ::std::collections::BTreeMap<
                ::std::string::String,
                ::std::string::String,
            >,
        ) -> Self {
            Self(value)
        }
    }
    ///How a person proves who they are. One method today; single sign-on becomes a second variant.
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Copy,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    pub enum LoginMethod {
        #[serde(rename = "password")]
        Password,
        /// A word that this client is too old to know.
        #[serde(rename = "unrecognised", other)]
        Unrecognised,
    }
    impl ::std::fmt::Display for LoginMethod {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            match *self {
                Self::Password => f.write_str("password"),
                Self::Unrecognised => f.write_str("unrecognised"),
            }
        }
    }
    impl ::std::str::FromStr for LoginMethod {
        type Err = self::error::ConversionError;
        fn from_str(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            match value {
                "password" => Ok(Self::Password),
                _ => Err("invalid value".into()),
            }
        }
    }
    impl ::std::convert::TryFrom<&str> for LoginMethod {
        type Error = self::error::ConversionError;
        fn try_from(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    impl ::std::convert::TryFrom<::std::string::String> for LoginMethod {
        type Error = self::error::ConversionError;
        fn try_from(
            value: ::std::string::String,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    ///An empty body, for acts that need no words.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug, Default)]
    #[serde(deny_unknown_fields)]
    pub struct Nothing {}
    ///Why a request was not carried out.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct Problem {
        pub code: Code,
        ///Give it when you ask for help.
        pub correlation_id: ::std::string::String,
        ///What happened, and what to do next.
        pub detail: ::std::string::String,
        ///Where the code is explained.
        pub docs: ::std::string::String,
        ///The faults one by one, where there are several.
        #[serde(default, skip_serializing_if = "::std::vec::Vec::is_empty")]
        pub errors: ::std::vec::Vec<FieldError>,
        ///Whether the same request may succeed later.
        pub retryable: bool,
        ///The HTTP status.
        pub status: i32,
        ///The code in words.
        pub title: ::std::string::String,
        ///A stable reference for the code.
        #[serde(rename = "type")]
        pub type_: ::std::string::String,
    }
    ///A project: ownership and quota inside a tenant.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct Project {
        ///When it was made.
        pub created_at: ::jiff::Timestamp,
        ///What people read.
        pub display_name: ::std::string::String,
        pub id: ProjectId,
        pub labels: Labels,
        ///Its name, unique in the tenant; `tenant.name` is its name on the platform.
        pub name: ::std::string::String,
        ///That tenant's slug.
        pub tenant: ::std::string::String,
        pub tenant_id: TenantId,
        ///When it last changed.
        pub updated_at: ::jiff::Timestamp,
        ///For `If-Match`.
        pub version: i64,
    }
    ///A project to be made.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    #[serde(deny_unknown_fields)]
    pub struct ProjectCreate {
        ///What people read; the name if not given.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub display_name: ::std::option::Option<::std::string::String>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub labels: ::std::option::Option<Labels>,
        ///Its name, unique in the tenant.
        pub name: ::std::string::String,
    }
    ///`ProjectId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct ProjectId(pub ::std::string::String);
    impl ::std::ops::Deref for ProjectId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<ProjectId> for ::std::string::String {
        fn from(value: ProjectId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for ProjectId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for ProjectId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for ProjectId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///A page of projects.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct ProjectPage {
        ///This page, oldest first.
        pub items: ::std::vec::Vec<Project>,
        ///Give it as `page_token` to get the next page; absent on the last.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub next_page_token: ::std::option::Option<::std::string::String>,
    }
    ///What of a project can change.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug, Default)]
    #[serde(deny_unknown_fields)]
    pub struct ProjectUpdate {
        ///What people read.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub display_name: ::std::option::Option<::std::string::String>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub labels: ::std::option::Option<Labels>,
    }
    ///What a removal took with it.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct Removed {
        ///The id of what was asked for.
        pub id: ::std::string::String,
        ///How many of each other noun went with it.
        pub removed: ::std::collections::BTreeMap<::std::string::String, i64>,
    }
    ///A server that shares the database.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct Replica {
        ///Where it listens.
        pub address: ::std::string::String,
        pub id: ReplicaId,
        ///When it was last heard of.
        pub seen_at: ::jiff::Timestamp,
        ///Since when it runs.
        pub started_at: ::jiff::Timestamp,
        ///Its version.
        pub version: ::std::string::String,
    }
    ///`ReplicaId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct ReplicaId(pub ::std::string::String);
    impl ::std::ops::Deref for ReplicaId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<ReplicaId> for ::std::string::String {
        fn from(value: ReplicaId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for ReplicaId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for ReplicaId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for ReplicaId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///A role.
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Copy,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    pub enum Role {
        #[serde(rename = "platform_operator")]
        PlatformOperator,
        #[serde(rename = "tenant_admin")]
        TenantAdmin,
        #[serde(rename = "project_admin")]
        ProjectAdmin,
        #[serde(rename = "project_viewer")]
        ProjectViewer,
        /// A word that this client is too old to know.
        #[serde(rename = "unrecognised", other)]
        Unrecognised,
    }
    impl ::std::fmt::Display for Role {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            match *self {
                Self::PlatformOperator => f.write_str("platform_operator"),
                Self::TenantAdmin => f.write_str("tenant_admin"),
                Self::ProjectAdmin => f.write_str("project_admin"),
                Self::ProjectViewer => f.write_str("project_viewer"),
                Self::Unrecognised => f.write_str("unrecognised"),
            }
        }
    }
    impl ::std::str::FromStr for Role {
        type Err = self::error::ConversionError;
        fn from_str(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            match value {
                "platform_operator" => Ok(Self::PlatformOperator),
                "tenant_admin" => Ok(Self::TenantAdmin),
                "project_admin" => Ok(Self::ProjectAdmin),
                "project_viewer" => Ok(Self::ProjectViewer),
                _ => Err("invalid value".into()),
            }
        }
    }
    impl ::std::convert::TryFrom<&str> for Role {
        type Error = self::error::ConversionError;
        fn try_from(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    impl ::std::convert::TryFrom<::std::string::String> for Role {
        type Error = self::error::ConversionError;
        fn try_from(
            value: ::std::string::String,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    ///A role that a person holds somewhere.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct RoleBinding {
        ///Since when.
        pub created_at: ::jiff::Timestamp,
        pub id: RoleBindingId,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub project_id: ::std::option::Option<ProjectId>,
        pub role: Role,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub tenant_id: ::std::option::Option<TenantId>,
        ///The person's address.
        pub user_email: ::std::string::String,
        pub user_id: UserId,
        ///For `If-Match`; a binding never changes, so it is always 1.
        pub version: i64,
    }
    ///A role to be given.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    #[serde(deny_unknown_fields)]
    pub struct RoleBindingCreate {
        ///The project, by name or id: for `project_admin` and `project_viewer`.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub project: ::std::option::Option<::std::string::String>,
        pub role: Role,
        ///The tenant, by slug or id: for `tenant_admin` alone.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub tenant: ::std::option::Option<::std::string::String>,
        ///The person, by address or id.
        pub user: ::std::string::String,
    }
    ///`RoleBindingId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct RoleBindingId(pub ::std::string::String);
    impl ::std::ops::Deref for RoleBindingId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<RoleBindingId> for ::std::string::String {
        fn from(value: RoleBindingId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for RoleBindingId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for RoleBindingId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for RoleBindingId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///A page of role bindings.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct RoleBindingPage {
        ///This page, oldest first.
        pub items: ::std::vec::Vec<RoleBinding>,
        ///Give it as `page_token` to get the next page; absent on the last.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub next_page_token: ::std::option::Option<::std::string::String>,
    }
    ///Automation inside one project.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct ServiceAccount {
        ///When it was made.
        pub created_at: ::jiff::Timestamp,
        ///What it is for.
        pub description: ::std::string::String,
        ///A disabled account's tokens are refused.
        pub disabled: bool,
        pub id: ServiceAccountId,
        pub labels: Labels,
        ///Its name, unique in the project.
        pub name: ::std::string::String,
        ///What it may do there: nothing is implied.
        pub permissions: ::std::vec::Vec<::std::string::String>,
        pub project_id: ProjectId,
        ///When it last changed.
        pub updated_at: ::jiff::Timestamp,
        ///For `If-Match`.
        pub version: i64,
    }
    ///A service account to be made.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    #[serde(deny_unknown_fields)]
    pub struct ServiceAccountCreate {
        ///What it is for.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub description: ::std::option::Option<::std::string::String>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub labels: ::std::option::Option<Labels>,
        ///Its name, unique in the project.
        pub name: ::std::string::String,
        ///What it may do, as `noun.verb`. Some permissions can never be given, and none that you do not hold.
        pub permissions: ::std::vec::Vec<::std::string::String>,
    }
    ///`ServiceAccountId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct ServiceAccountId(pub ::std::string::String);
    impl ::std::ops::Deref for ServiceAccountId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<ServiceAccountId> for ::std::string::String {
        fn from(value: ServiceAccountId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for ServiceAccountId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for ServiceAccountId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for ServiceAccountId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///A page of service accounts.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct ServiceAccountPage {
        ///This page, oldest first.
        pub items: ::std::vec::Vec<ServiceAccount>,
        ///Give it as `page_token` to get the next page; absent on the last.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub next_page_token: ::std::option::Option<::std::string::String>,
    }
    ///What of a service account can change.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug, Default)]
    #[serde(deny_unknown_fields)]
    pub struct ServiceAccountUpdate {
        ///What it is for.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub description: ::std::option::Option<::std::string::String>,
        ///Whether its tokens are refused.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub disabled: ::std::option::Option<bool>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub labels: ::std::option::Option<Labels>,
        ///The allow list; it replaces the old one.
        #[serde(default, skip_serializing_if = "::std::vec::Vec::is_empty")]
        pub permissions: ::std::vec::Vec<::std::string::String>,
    }
    ///A session. The token itself travels only in the `muster_session` cookie.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone)]
    pub struct Session {
        ///What a page must send as `X-CSRF-Token` with every request that is not a GET; in the one answer that shows it.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub csrf_token: ::std::option::Option<::std::string::String>,
        ///When it ends by itself.
        pub expires_at: ::jiff::Timestamp,
        pub id: TokenId,
        ///True in a replayed answer: the secret was in the first one and is kept nowhere.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub secret_shown_once: ::std::option::Option<bool>,
        pub user_id: UserId,
    }
    ///A login.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone)]
    #[serde(deny_unknown_fields)]
    pub struct SessionCreate {
        ///The address.
        pub email: ::std::string::String,
        pub method: LoginMethod,
        ///The password.
        pub password: ::std::string::String,
    }
    ///The platform at one look.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct Status {
        ///The version of the contract.
        pub api_version: ::std::string::String,
        ///The checks.
        pub checks: ::std::vec::Vec<Check>,
        ///`sqlite` or `postgres`.
        pub database: ::std::string::String,
        ///Whether every check is in order.
        pub healthy: bool,
        ///The server's clock.
        pub now: ::jiff::Timestamp,
        ///The servers that share the database; only operators see them.
        pub replicas: ::std::vec::Vec<Replica>,
        ///The newest migration that was applied.
        pub schema_version: i64,
        ///The version of the server that answered.
        pub version: ::std::string::String,
    }
    ///A tenant: the outer wall of isolation.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct Tenant {
        ///When it was made.
        pub created_at: ::jiff::Timestamp,
        ///What people read.
        pub display_name: ::std::string::String,
        pub id: TenantId,
        pub labels: Labels,
        ///Its name, unique on the platform.
        pub slug: ::std::string::String,
        ///When it last changed.
        pub updated_at: ::jiff::Timestamp,
        ///For `If-Match`.
        pub version: i64,
    }
    ///A tenant to be made.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    #[serde(deny_unknown_fields)]
    pub struct TenantCreate {
        ///What people read; the slug if not given.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub display_name: ::std::option::Option<::std::string::String>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub labels: ::std::option::Option<Labels>,
        ///Its name, unique on the platform.
        pub slug: ::std::string::String,
    }
    ///`TenantId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct TenantId(pub ::std::string::String);
    impl ::std::ops::Deref for TenantId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<TenantId> for ::std::string::String {
        fn from(value: TenantId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for TenantId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for TenantId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for TenantId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///A page of tenants.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct TenantPage {
        ///This page, oldest first.
        pub items: ::std::vec::Vec<Tenant>,
        ///Give it as `page_token` to get the next page; absent on the last.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub next_page_token: ::std::option::Option<::std::string::String>,
    }
    ///What of a tenant can change.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug, Default)]
    #[serde(deny_unknown_fields)]
    pub struct TenantUpdate {
        ///What people read.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub display_name: ::std::option::Option<::std::string::String>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub labels: ::std::option::Option<Labels>,
    }
    ///A token. Its secret is shown once, when it is issued.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone)]
    pub struct Token {
        ///When it was issued.
        pub created_at: ::jiff::Timestamp,
        ///When it ends by itself.
        pub expires_at: ::jiff::Timestamp,
        ///Its first letters.
        pub hint: ::std::string::String,
        pub id: TokenId,
        pub kind: TokenKind,
        ///When it was last seen, to the minute.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub last_used_at: ::std::option::Option<::jiff::Timestamp>,
        ///What it is for.
        pub name: ::std::string::String,
        ///When it was revoked.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub revoked_at: ::std::option::Option<::jiff::Timestamp>,
        ///The token itself, in the one answer that shows it.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub secret: ::std::option::Option<::std::string::String>,
        ///True in a replayed answer: the secret was in the first one and is kept nowhere.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub secret_shown_once: ::std::option::Option<bool>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub service_account_id: ::std::option::Option<ServiceAccountId>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub user_id: ::std::option::Option<UserId>,
        ///For `If-Match`.
        pub version: i64,
    }
    ///`TokenId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct TokenId(pub ::std::string::String);
    impl ::std::ops::Deref for TokenId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<TokenId> for ::std::string::String {
        fn from(value: TokenId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for TokenId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for TokenId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for TokenId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///A token to be issued.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    #[serde(deny_unknown_fields)]
    pub struct TokenIssue {
        ///How long it lives; 90 days if not given.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub expires_in_seconds: ::std::option::Option<i32>,
        ///What it is for.
        pub name: ::std::string::String,
        ///The service account's id; yourself if not given. Nobody issues a token for another person.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub service_account: ::std::option::Option<::std::string::String>,
    }
    ///Whose token it is.
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Copy,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    pub enum TokenKind {
        #[serde(rename = "personal")]
        Personal,
        #[serde(rename = "service_account")]
        ServiceAccount,
        #[serde(rename = "session")]
        Session,
        /// A word that this client is too old to know.
        #[serde(rename = "unrecognised", other)]
        Unrecognised,
    }
    impl ::std::fmt::Display for TokenKind {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            match *self {
                Self::Personal => f.write_str("personal"),
                Self::ServiceAccount => f.write_str("service_account"),
                Self::Session => f.write_str("session"),
                Self::Unrecognised => f.write_str("unrecognised"),
            }
        }
    }
    impl ::std::str::FromStr for TokenKind {
        type Err = self::error::ConversionError;
        fn from_str(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            match value {
                "personal" => Ok(Self::Personal),
                "service_account" => Ok(Self::ServiceAccount),
                "session" => Ok(Self::Session),
                _ => Err("invalid value".into()),
            }
        }
    }
    impl ::std::convert::TryFrom<&str> for TokenKind {
        type Error = self::error::ConversionError;
        fn try_from(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    impl ::std::convert::TryFrom<::std::string::String> for TokenKind {
        type Error = self::error::ConversionError;
        fn try_from(
            value: ::std::string::String,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    ///A page of tokens.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct TokenPage {
        ///This page, oldest first.
        pub items: ::std::vec::Vec<Token>,
        ///Give it as `page_token` to get the next page; absent on the last.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub next_page_token: ::std::option::Option<::std::string::String>,
    }
    ///A token to be replaced.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug, Default)]
    #[serde(deny_unknown_fields)]
    pub struct TokenRotate {
        ///How long the new one lives; 90 days if not given.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub expires_in_seconds: ::std::option::Option<i32>,
        ///How long the old one still works beside the new one; an hour if not given.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub overlap_seconds: ::std::option::Option<i32>,
    }
    ///A person.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct User {
        ///When the person was added.
        pub created_at: ::jiff::Timestamp,
        ///A disabled person can neither log in nor use a token.
        pub disabled: bool,
        ///What people read.
        pub display_name: ::std::string::String,
        ///The address, unique on the platform.
        pub email: ::std::string::String,
        ///Whether a password was set.
        pub has_password: bool,
        pub id: UserId,
        pub labels: Labels,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub tenant_id: ::std::option::Option<TenantId>,
        ///When the entry last changed.
        pub updated_at: ::jiff::Timestamp,
        ///For `If-Match`.
        pub version: i64,
    }
    ///A person to be added.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone)]
    #[serde(deny_unknown_fields)]
    pub struct UserCreate {
        ///What people read; the address if not given.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub display_name: ::std::option::Option<::std::string::String>,
        ///The address, unique on the platform.
        pub email: ::std::string::String,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub labels: ::std::option::Option<Labels>,
        ///A first password. Without one the person cannot log in until it is set.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub password: ::std::option::Option<::std::string::String>,
        ///The tenant that the person belongs to, by slug or id; none for people who run the platform.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub tenant: ::std::option::Option<::std::string::String>,
    }
    ///`UserId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct UserId(pub ::std::string::String);
    impl ::std::ops::Deref for UserId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<UserId> for ::std::string::String {
        fn from(value: UserId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for UserId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for UserId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for UserId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///A page of people.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct UserPage {
        ///This page, oldest first.
        pub items: ::std::vec::Vec<User>,
        ///Give it as `page_token` to get the next page; absent on the last.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub next_page_token: ::std::option::Option<::std::string::String>,
    }
    ///A new password.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone)]
    #[serde(deny_unknown_fields)]
    pub struct UserSetPassword {
        ///The one until now; needed when people change their own and have one.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub current_password: ::std::option::Option<::std::string::String>,
        ///The new one.
        pub password: ::std::string::String,
    }
    ///What of a person's entry can change.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug, Default)]
    #[serde(deny_unknown_fields)]
    pub struct UserUpdate {
        ///Whether the person is shut out: tokens and sessions end within seconds, and come back to life if lifted.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub disabled: ::std::option::Option<bool>,
        ///What people read.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub display_name: ::std::option::Option<::std::string::String>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub labels: ::std::option::Option<Labels>,
    }
    ///Events pushed to a URL, signed and in order.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone)]
    pub struct Webhook {
        ///How often the next event was tried.
        pub attempts: i64,
        ///When it was made.
        pub created_at: ::jiff::Timestamp,
        ///The last event that was delivered or passed over, by platform number.
        pub cursor: i64,
        ///Which types; empty means all.
        pub event_types: ::std::vec::Vec<::std::string::String>,
        ///Since when nothing got through.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub failing_since: ::std::option::Option<::jiff::Timestamp>,
        pub id: WebhookId,
        pub labels: Labels,
        ///The last answer or fault.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub last_result: ::std::option::Option<::std::string::String>,
        ///Its name, unique where it belongs.
        pub name: ::std::string::String,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub project_id: ::std::option::Option<ProjectId>,
        ///The signing key, in the one answer that shows it.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub secret: ::std::option::Option<::std::string::String>,
        ///True in a replayed answer: the secret was in the first one and is not shown again.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub secret_shown_once: ::std::option::Option<bool>,
        pub state: WebhookState,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub tenant_id: ::std::option::Option<TenantId>,
        ///When it last changed.
        pub updated_at: ::jiff::Timestamp,
        ///Where they go.
        pub url: ::std::string::String,
        ///For `If-Match`.
        pub version: i64,
    }
    ///A webhook to be made.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    #[serde(deny_unknown_fields)]
    pub struct WebhookCreate {
        ///Which types; a trailing `*` matches the rest; none means all.
        #[serde(default, skip_serializing_if = "::std::vec::Vec::is_empty")]
        pub event_types: ::std::vec::Vec<::std::string::String>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub labels: ::std::option::Option<Labels>,
        ///Its name, unique where it belongs.
        pub name: ::std::string::String,
        ///A project's events, by name or id. With neither, the platform's.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub project: ::std::option::Option<::std::string::String>,
        ///A tenant's events, by slug or id.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub tenant: ::std::option::Option<::std::string::String>,
        ///Where events go: https, or http to addresses that the operator allowed.
        pub url: ::std::string::String,
    }
    ///One attempt to deliver.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct WebhookDelivery {
        ///When.
        pub at: ::jiff::Timestamp,
        ///Which attempt at it, from 1.
        pub attempt: i64,
        ///Whether the receiver answered with a success.
        pub delivered: bool,
        pub event_id: EventId,
        pub id: DeliveryId,
        ///The answer or the fault.
        pub result: ::std::string::String,
        ///That event's platform number.
        pub sequence: i64,
    }
    ///A page of attempts to deliver.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct WebhookDeliveryPage {
        ///This page, oldest first.
        pub items: ::std::vec::Vec<WebhookDelivery>,
        ///Give it as `page_token` to get the next page; absent on the last.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub next_page_token: ::std::option::Option<::std::string::String>,
    }
    ///`WebhookId`
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    #[serde(transparent)]
    pub struct WebhookId(pub ::std::string::String);
    impl ::std::ops::Deref for WebhookId {
        type Target = ::std::string::String;
        fn deref(&self) -> &::std::string::String {
            &self.0
        }
    }
    impl ::std::convert::From<WebhookId> for ::std::string::String {
        fn from(value: WebhookId) -> Self {
            value.0
        }
    }
    impl ::std::convert::From<::std::string::String> for WebhookId {
        fn from(value: ::std::string::String) -> Self {
            Self(value)
        }
    }
    impl ::std::fmt::Display for WebhookId {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl ::std::str::FromStr for WebhookId {
        type Err = ::std::convert::Infallible;
        fn from_str(value: &str) -> ::std::result::Result<Self, Self::Err> {
            Ok(Self(value.to_string()))
        }
    }
    ///A page of webhooks.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct WebhookPage {
        ///This page, oldest first.
        pub items: ::std::vec::Vec<Webhook>,
        ///Give it as `page_token` to get the next page; absent on the last.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub next_page_token: ::std::option::Option<::std::string::String>,
    }
    ///Whether events are sent.
    #[derive(
        ::serde::Deserialize,
        ::serde::Serialize,
        Clone,
        Copy,
        Debug,
        Eq,
        Hash,
        Ord,
        PartialEq,
        PartialOrd
    )]
    pub enum WebhookState {
        #[serde(rename = "enabled")]
        Enabled,
        #[serde(rename = "disabled")]
        Disabled,
        #[serde(rename = "failing")]
        Failing,
        /// A word that this client is too old to know.
        #[serde(rename = "unrecognised", other)]
        Unrecognised,
    }
    impl ::std::fmt::Display for WebhookState {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            match *self {
                Self::Enabled => f.write_str("enabled"),
                Self::Disabled => f.write_str("disabled"),
                Self::Failing => f.write_str("failing"),
                Self::Unrecognised => f.write_str("unrecognised"),
            }
        }
    }
    impl ::std::str::FromStr for WebhookState {
        type Err = self::error::ConversionError;
        fn from_str(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            match value {
                "enabled" => Ok(Self::Enabled),
                "disabled" => Ok(Self::Disabled),
                "failing" => Ok(Self::Failing),
                _ => Err("invalid value".into()),
            }
        }
    }
    impl ::std::convert::TryFrom<&str> for WebhookState {
        type Error = self::error::ConversionError;
        fn try_from(
            value: &str,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    impl ::std::convert::TryFrom<::std::string::String> for WebhookState {
        type Error = self::error::ConversionError;
        fn try_from(
            value: ::std::string::String,
        ) -> ::std::result::Result<Self, self::error::ConversionError> {
            value.parse()
        }
    }
    ///What of a webhook can change.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug, Default)]
    #[serde(deny_unknown_fields)]
    pub struct WebhookUpdate {
        ///Switches it off, or on again: then it goes on after the last event that got through.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub enabled: ::std::option::Option<bool>,
        ///Which types; they replace the old ones.
        #[serde(default, skip_serializing_if = "::std::vec::Vec::is_empty")]
        pub event_types: ::std::vec::Vec<::std::string::String>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub labels: ::std::option::Option<Labels>,
        ///Where events go.
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub url: ::std::option::Option<::std::string::String>,
    }
    ///The actor of a request.
    #[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug)]
    pub struct WhoAmI {
        ///When that credential ends by itself.
        pub expires_at: ::jiff::Timestamp,
        ///The actor's id.
        pub id: ::std::string::String,
        ///`user` or `service_account`.
        pub kind: ::std::string::String,
        ///An address or a name.
        pub name: ::std::string::String,
        ///The allow list of a service account.
        pub permissions: ::std::vec::Vec<::std::string::String>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub project_id: ::std::option::Option<ProjectId>,
        ///The roles of a person.
        pub roles: ::std::vec::Vec<HeldRole>,
        #[serde(skip_serializing_if = "::std::option::Option::is_none")]
        pub tenant_id: ::std::option::Option<TenantId>,
        pub token_id: TokenId,
    }
    /// Error types.
    pub mod error {
        /// Error from a `TryFrom` or `FromStr` implementation.
        pub struct ConversionError(::std::borrow::Cow<'static, str>);
        impl ::std::error::Error for ConversionError {}
        impl ::std::fmt::Display for ConversionError {
            fn fmt(
                &self,
                f: &mut ::std::fmt::Formatter<'_>,
            ) -> Result<(), ::std::fmt::Error> {
                ::std::fmt::Display::fmt(&self.0, f)
            }
        }
        impl ::std::fmt::Debug for ConversionError {
            fn fmt(
                &self,
                f: &mut ::std::fmt::Formatter<'_>,
            ) -> Result<(), ::std::fmt::Error> {
                ::std::fmt::Debug::fmt(&self.0, f)
            }
        }
        impl From<&'static str> for ConversionError {
            fn from(value: &'static str) -> Self {
                Self(value.into())
            }
        }
        impl From<String> for ConversionError {
            fn from(value: String) -> Self {
                Self(value.into())
            }
        }
    }
    impl ::std::fmt::Debug for Session {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            f.debug_struct("Session").finish_non_exhaustive()
        }
    }
    impl ::std::fmt::Debug for SessionCreate {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            f.debug_struct("SessionCreate").finish_non_exhaustive()
        }
    }
    impl ::std::fmt::Debug for Token {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            f.debug_struct("Token").finish_non_exhaustive()
        }
    }
    impl ::std::fmt::Debug for UserCreate {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            f.debug_struct("UserCreate").finish_non_exhaustive()
        }
    }
    impl ::std::fmt::Debug for UserSetPassword {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            f.debug_struct("UserSetPassword").finish_non_exhaustive()
        }
    }
    impl ::std::fmt::Debug for Webhook {
        fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            f.debug_struct("Webhook").finish_non_exhaustive()
        }
    }
}
#[derive(Clone, Debug)]
/**Client for Muster

The app platform of a GPU cloud. Every command is idempotent, audited and told as an event; every "done" is proved.

Version: 1.0.0*/
pub struct Client {
    pub(crate) baseurl: String,
    pub(crate) client: reqwest::Client,
}
impl Client {
    /// Create a new client.
    ///
    /// `baseurl` is the base URL provided to the internal
    /// `reqwest::Client`, and should include a scheme and hostname,
    /// as well as port and a path stem if applicable.
    pub fn new(baseurl: &str) -> Self {
        #[cfg(not(target_arch = "wasm32"))]
        let client = {
            let dur = ::std::time::Duration::from_secs(15u64);
            reqwest::ClientBuilder::new().connect_timeout(dur).timeout(dur)
        };
        #[cfg(target_arch = "wasm32")]
        let client = reqwest::ClientBuilder::new();
        Self::new_with_client(baseurl, client.build().unwrap())
    }
    /// Construct a new client with an existing `reqwest::Client`,
    /// allowing more control over its configuration.
    ///
    /// `baseurl` is the base URL provided to the internal
    /// `reqwest::Client`, and should include a scheme and hostname,
    /// as well as port and a path stem if applicable.
    pub fn new_with_client(baseurl: &str, client: reqwest::Client) -> Self {
        Self {
            baseurl: baseurl.to_string(),
            client,
        }
    }
}
impl ClientInfo<()> for Client {
    fn api_version() -> &'static str {
        "1.0.0"
    }
    fn baseurl(&self) -> &str {
        self.baseurl.as_str()
    }
    fn client(&self) -> &reqwest::Client {
        &self.client
    }
    fn inner(&self) -> &() {
        &()
    }
}
impl ClientHooks<()> for &Client {}
#[allow(clippy::all)]
impl Client {
    /**Show who you are to the platform

Sends a `GET` request to `/v1/whoami`

*/
    pub async fn whoami<'a>(
        &'a self,
    ) -> Result<ResponseValue<types::WhoAmI>, Error<types::Problem>> {
        let url = format!("{}/v1/whoami", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "whoami",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Ask whether you may do something, and why

Sends a `GET` request to `/v1/can-i`

Arguments:
- `permission`: The permission, as `noun.verb`.
- `project`: In which project, by name or id. With neither, on the platform.
- `tenant`: In which tenant, by slug or id.
*/
    pub async fn can_i<'a>(
        &'a self,
        permission: &'a str,
        project: Option<&'a str>,
        tenant: Option<&'a str>,
    ) -> Result<ResponseValue<types::CanI>, Error<types::Problem>> {
        let url = format!("{}/v1/can-i", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("permission", &permission))
            .query(&progenitor_client::QueryParam::new("project", &project))
            .query(&progenitor_client::QueryParam::new("tenant", &tenant))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "can_i",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Log in with a browser

Sets the `muster_session` cookie. Programs use tokens instead.

Sends a `POST` request to `/v1/sessions`

Arguments:
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn session_create<'a>(
        &'a self,
        idempotency_key: &'a str,
        body: &'a types::SessionCreate,
    ) -> Result<ResponseValue<types::Session>, Error<types::Problem>> {
        let url = format!("{}/v1/sessions", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "session_create",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            201u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Log out: ends the session of this request

Sends a `POST` request to `/v1/sessions/current/end`

Arguments:
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn session_delete<'a>(
        &'a self,
        idempotency_key: &'a str,
        body: &'a types::Nothing,
    ) -> Result<ResponseValue<types::Removed>, Error<types::Problem>> {
        let url = format!("{}/v1/sessions/current/end", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "session_delete",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**List the tenants you may see

Sends a `GET` request to `/v1/tenants`

Arguments:
- `labels`: Only those with these labels: `team=ml,stage!=test`.
- `page_size`: How many at most; 50 if not given.
- `page_token`: The token that the page before gave.
*/
    pub async fn tenant_list<'a>(
        &'a self,
        labels: Option<&'a str>,
        page_size: Option<i32>,
        page_token: Option<&'a str>,
    ) -> Result<ResponseValue<types::TenantPage>, Error<types::Problem>> {
        let url = format!("{}/v1/tenants", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("labels", &labels))
            .query(&progenitor_client::QueryParam::new("page_size", &page_size))
            .query(&progenitor_client::QueryParam::new("page_token", &page_token))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "tenant_list",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Make a tenant

Sends a `POST` request to `/v1/tenants`

Arguments:
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn tenant_create<'a>(
        &'a self,
        idempotency_key: &'a str,
        body: &'a types::TenantCreate,
    ) -> Result<ResponseValue<types::Tenant>, Error<types::Problem>> {
        let url = format!("{}/v1/tenants", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "tenant_create",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            201u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Show a tenant

Sends a `GET` request to `/v1/tenants/{tenant}`

Arguments:
- `tenant`: An id or a name.
*/
    pub async fn tenant_get<'a>(
        &'a self,
        tenant: &'a str,
    ) -> Result<ResponseValue<types::Tenant>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/tenants/{}", self.baseurl, encode_path(& tenant.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "tenant_get",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Remove a tenant

Removes the tenant; with `cascade` also its projects, people, service accounts, tokens and webhooks. Its encryption keys are destroyed. Its audit chain stays.

Sends a `DELETE` request to `/v1/tenants/{tenant}`

Arguments:
- `tenant`: An id or a name.
- `cascade`: Whether what it holds is removed with it; refused as `not_empty` otherwise.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
*/
    pub async fn tenant_delete<'a>(
        &'a self,
        tenant: &'a str,
        cascade: Option<bool>,
        if_match: &'a str,
    ) -> Result<ResponseValue<types::Removed>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/tenants/{}", self.baseurl, encode_path(& tenant.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .delete(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("cascade", &cascade))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "tenant_delete",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Change a tenant's description

Sends a `PATCH` request to `/v1/tenants/{tenant}`

Arguments:
- `tenant`: An id or a name.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
- `body`
*/
    pub async fn tenant_update<'a>(
        &'a self,
        tenant: &'a str,
        if_match: &'a str,
        body: &'a types::TenantUpdate,
    ) -> Result<ResponseValue<types::Tenant>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/tenants/{}", self.baseurl, encode_path(& tenant.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .patch(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "tenant_update",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Give a tenant a new encryption key

What was sealed under the old key is sealed anew in the background; nothing stops meanwhile.

Sends a `POST` request to `/v1/tenants/{tenant}/rotate-key`

Arguments:
- `tenant`: An id or a name.
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn tenant_rotate_key<'a>(
        &'a self,
        tenant: &'a str,
        idempotency_key: &'a str,
        body: &'a types::Nothing,
    ) -> Result<ResponseValue<types::Tenant>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/tenants/{}/rotate-key", self.baseurl, encode_path(& tenant
            .to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "tenant_rotate_key",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Make a project in a tenant

Sends a `POST` request to `/v1/tenants/{tenant}/projects`

Arguments:
- `tenant`: An id or a name.
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn project_create<'a>(
        &'a self,
        tenant: &'a str,
        idempotency_key: &'a str,
        body: &'a types::ProjectCreate,
    ) -> Result<ResponseValue<types::Project>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/tenants/{}/projects", self.baseurl, encode_path(& tenant.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "project_create",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            201u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**List the projects you may see

Sends a `GET` request to `/v1/projects`

Arguments:
- `labels`: Only those with these labels: `team=ml,stage!=test`.
- `page_size`: How many at most; 50 if not given.
- `page_token`: The token that the page before gave.
*/
    pub async fn project_list<'a>(
        &'a self,
        labels: Option<&'a str>,
        page_size: Option<i32>,
        page_token: Option<&'a str>,
    ) -> Result<ResponseValue<types::ProjectPage>, Error<types::Problem>> {
        let url = format!("{}/v1/projects", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("labels", &labels))
            .query(&progenitor_client::QueryParam::new("page_size", &page_size))
            .query(&progenitor_client::QueryParam::new("page_token", &page_token))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "project_list",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Show a project

Sends a `GET` request to `/v1/projects/{project}`

Arguments:
- `project`: An id or a name.
*/
    pub async fn project_get<'a>(
        &'a self,
        project: &'a str,
    ) -> Result<ResponseValue<types::Project>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/projects/{}", self.baseurl, encode_path(& project.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "project_get",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Remove a project

Removes the project; with `cascade` also its service accounts, tokens, role bindings and webhooks.

Sends a `DELETE` request to `/v1/projects/{project}`

Arguments:
- `project`: An id or a name.
- `cascade`: Whether what it holds is removed with it; refused as `not_empty` otherwise.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
*/
    pub async fn project_delete<'a>(
        &'a self,
        project: &'a str,
        cascade: Option<bool>,
        if_match: &'a str,
    ) -> Result<ResponseValue<types::Removed>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/projects/{}", self.baseurl, encode_path(& project.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .delete(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("cascade", &cascade))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "project_delete",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Change a project's description

Sends a `PATCH` request to `/v1/projects/{project}`

Arguments:
- `project`: An id or a name.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
- `body`
*/
    pub async fn project_update<'a>(
        &'a self,
        project: &'a str,
        if_match: &'a str,
        body: &'a types::ProjectUpdate,
    ) -> Result<ResponseValue<types::Project>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/projects/{}", self.baseurl, encode_path(& project.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .patch(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "project_update",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**List people

Sends a `GET` request to `/v1/users`

Arguments:
- `labels`: Only those with these labels: `team=ml,stage!=test`.
- `page_size`: How many at most; 50 if not given.
- `page_token`: The token that the page before gave.
- `tenant`: Whose people, by slug or id; your own tenant's if not given, everybody's for operators.
*/
    pub async fn user_list<'a>(
        &'a self,
        labels: Option<&'a str>,
        page_size: Option<i32>,
        page_token: Option<&'a str>,
        tenant: Option<&'a str>,
    ) -> Result<ResponseValue<types::UserPage>, Error<types::Problem>> {
        let url = format!("{}/v1/users", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("labels", &labels))
            .query(&progenitor_client::QueryParam::new("page_size", &page_size))
            .query(&progenitor_client::QueryParam::new("page_token", &page_token))
            .query(&progenitor_client::QueryParam::new("tenant", &tenant))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "user_list",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Add a person

Sends a `POST` request to `/v1/users`

Arguments:
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn user_create<'a>(
        &'a self,
        idempotency_key: &'a str,
        body: &'a types::UserCreate,
    ) -> Result<ResponseValue<types::User>, Error<types::Problem>> {
        let url = format!("{}/v1/users", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "user_create",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            201u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Show a person

People can always see themselves.

Sends a `GET` request to `/v1/users/{user}`

Arguments:
- `user`: An id or a name.
*/
    pub async fn user_get<'a>(
        &'a self,
        user: &'a str,
    ) -> Result<ResponseValue<types::User>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/users/{}", self.baseurl, encode_path(& user.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "user_get",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Remove a person, with tokens, sessions and role bindings

Sends a `DELETE` request to `/v1/users/{user}`

Arguments:
- `user`: An id or a name.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
*/
    pub async fn user_delete<'a>(
        &'a self,
        user: &'a str,
        if_match: &'a str,
    ) -> Result<ResponseValue<types::Removed>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/users/{}", self.baseurl, encode_path(& user.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .delete(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "user_delete",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Change a person's entry, or shut the person out

Sends a `PATCH` request to `/v1/users/{user}`

Arguments:
- `user`: An id or a name.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
- `body`
*/
    pub async fn user_update<'a>(
        &'a self,
        user: &'a str,
        if_match: &'a str,
        body: &'a types::UserUpdate,
    ) -> Result<ResponseValue<types::User>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/users/{}", self.baseurl, encode_path(& user.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .patch(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "user_update",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Set a password

Every token and session of the person ends. People can always set their own.

Sends a `POST` request to `/v1/users/{user}/set-password`

Arguments:
- `user`: An id or a name.
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn user_set_password<'a>(
        &'a self,
        user: &'a str,
        idempotency_key: &'a str,
        body: &'a types::UserSetPassword,
    ) -> Result<ResponseValue<types::User>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/users/{}/set-password", self.baseurl, encode_path(& user.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "user_set_password",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**List who holds which role

Sends a `GET` request to `/v1/role-bindings`

Arguments:
- `page_size`: How many at most; 50 if not given.
- `page_token`: The token that the page before gave.
- `project`: Those of a project, by name or id. With neither, the whole platform's.
- `tenant`: Those of a tenant and its projects, by slug or id.
*/
    pub async fn role_binding_list<'a>(
        &'a self,
        page_size: Option<i32>,
        page_token: Option<&'a str>,
        project: Option<&'a str>,
        tenant: Option<&'a str>,
    ) -> Result<ResponseValue<types::RoleBindingPage>, Error<types::Problem>> {
        let url = format!("{}/v1/role-bindings", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("page_size", &page_size))
            .query(&progenitor_client::QueryParam::new("page_token", &page_token))
            .query(&progenitor_client::QueryParam::new("project", &project))
            .query(&progenitor_client::QueryParam::new("tenant", &tenant))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "role_binding_list",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Give a person a role

Nobody gives a role that reaches further than their own.

Sends a `POST` request to `/v1/role-bindings`

Arguments:
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn role_binding_create<'a>(
        &'a self,
        idempotency_key: &'a str,
        body: &'a types::RoleBindingCreate,
    ) -> Result<ResponseValue<types::RoleBinding>, Error<types::Problem>> {
        let url = format!("{}/v1/role-bindings", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "role_binding_create",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            201u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Show a role binding

Sends a `GET` request to `/v1/role-bindings/{role_binding}`

Arguments:
- `role_binding`: An id or a name.
*/
    pub async fn role_binding_get<'a>(
        &'a self,
        role_binding: &'a str,
    ) -> Result<ResponseValue<types::RoleBinding>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/role-bindings/{}", self.baseurl, encode_path(& role_binding
            .to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "role_binding_get",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Take a role away

Sends a `DELETE` request to `/v1/role-bindings/{role_binding}`

Arguments:
- `role_binding`: An id or a name.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
*/
    pub async fn role_binding_delete<'a>(
        &'a self,
        role_binding: &'a str,
        if_match: &'a str,
    ) -> Result<ResponseValue<types::Removed>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/role-bindings/{}", self.baseurl, encode_path(& role_binding
            .to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .delete(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "role_binding_delete",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**List a project's service accounts

Sends a `GET` request to `/v1/projects/{project}/service-accounts`

Arguments:
- `project`: An id or a name.
- `labels`: Only those with these labels: `team=ml,stage!=test`.
- `page_size`: How many at most; 50 if not given.
- `page_token`: The token that the page before gave.
*/
    pub async fn service_account_list<'a>(
        &'a self,
        project: &'a str,
        labels: Option<&'a str>,
        page_size: Option<i32>,
        page_token: Option<&'a str>,
    ) -> Result<ResponseValue<types::ServiceAccountPage>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/projects/{}/service-accounts", self.baseurl, encode_path(& project
            .to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("labels", &labels))
            .query(&progenitor_client::QueryParam::new("page_size", &page_size))
            .query(&progenitor_client::QueryParam::new("page_token", &page_token))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "service_account_list",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Make a service account

Sends a `POST` request to `/v1/projects/{project}/service-accounts`

Arguments:
- `project`: An id or a name.
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn service_account_create<'a>(
        &'a self,
        project: &'a str,
        idempotency_key: &'a str,
        body: &'a types::ServiceAccountCreate,
    ) -> Result<ResponseValue<types::ServiceAccount>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/projects/{}/service-accounts", self.baseurl, encode_path(& project
            .to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "service_account_create",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            201u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Show a service account

Sends a `GET` request to `/v1/projects/{project}/service-accounts/{service_account}`

Arguments:
- `project`: An id or a name.
- `service_account`: An id or a name.
*/
    pub async fn service_account_get<'a>(
        &'a self,
        project: &'a str,
        service_account: &'a str,
    ) -> Result<ResponseValue<types::ServiceAccount>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/projects/{}/service-accounts/{}", self.baseurl, encode_path(& project
            .to_string()), encode_path(& service_account.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "service_account_get",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Remove a service account and its tokens

Sends a `DELETE` request to `/v1/projects/{project}/service-accounts/{service_account}`

Arguments:
- `project`: An id or a name.
- `service_account`: An id or a name.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
*/
    pub async fn service_account_delete<'a>(
        &'a self,
        project: &'a str,
        service_account: &'a str,
        if_match: &'a str,
    ) -> Result<ResponseValue<types::Removed>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/projects/{}/service-accounts/{}", self.baseurl, encode_path(& project
            .to_string()), encode_path(& service_account.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .delete(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "service_account_delete",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Change a service account's allow list or description

Sends a `PATCH` request to `/v1/projects/{project}/service-accounts/{service_account}`

Arguments:
- `project`: An id or a name.
- `service_account`: An id or a name.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
- `body`
*/
    pub async fn service_account_update<'a>(
        &'a self,
        project: &'a str,
        service_account: &'a str,
        if_match: &'a str,
        body: &'a types::ServiceAccountUpdate,
    ) -> Result<ResponseValue<types::ServiceAccount>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/projects/{}/service-accounts/{}", self.baseurl, encode_path(& project
            .to_string()), encode_path(& service_account.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .patch(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "service_account_update",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**List tokens

Sends a `GET` request to `/v1/tokens`

Arguments:
- `page_size`: How many at most; 50 if not given.
- `page_token`: The token that the page before gave.
- `service_account`: A service account's, by id.
- `user`: Another person's, by address or id. With neither, your own.
*/
    pub async fn token_list<'a>(
        &'a self,
        page_size: Option<i32>,
        page_token: Option<&'a str>,
        service_account: Option<&'a str>,
        user: Option<&'a str>,
    ) -> Result<ResponseValue<types::TokenPage>, Error<types::Problem>> {
        let url = format!("{}/v1/tokens", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("page_size", &page_size))
            .query(&progenitor_client::QueryParam::new("page_token", &page_token))
            .query(
                &progenitor_client::QueryParam::new("service_account", &service_account),
            )
            .query(&progenitor_client::QueryParam::new("user", &user))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "token_list",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Issue a token for yourself or for a service account

Sends a `POST` request to `/v1/tokens`

Arguments:
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn token_issue<'a>(
        &'a self,
        idempotency_key: &'a str,
        body: &'a types::TokenIssue,
    ) -> Result<ResponseValue<types::Token>, Error<types::Problem>> {
        let url = format!("{}/v1/tokens", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "token_issue",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            201u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Show a token

Sends a `GET` request to `/v1/tokens/{token}`

Arguments:
- `token`: An id or a name.
*/
    pub async fn token_get<'a>(
        &'a self,
        token: &'a str,
    ) -> Result<ResponseValue<types::Token>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/tokens/{}", self.baseurl, encode_path(& token.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "token_get",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Replace a token by a new one, with an overlap

Sends a `POST` request to `/v1/tokens/{token}/rotate`

Arguments:
- `token`: An id or a name.
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn token_rotate<'a>(
        &'a self,
        token: &'a str,
        idempotency_key: &'a str,
        body: &'a types::TokenRotate,
    ) -> Result<ResponseValue<types::Token>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/tokens/{}/rotate", self.baseurl, encode_path(& token.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "token_rotate",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Revoke a token: it and every stream opened with it end within seconds

Sends a `POST` request to `/v1/tokens/{token}/revoke`

Arguments:
- `token`: An id or a name.
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn token_revoke<'a>(
        &'a self,
        token: &'a str,
        idempotency_key: &'a str,
        body: &'a types::Nothing,
    ) -> Result<ResponseValue<types::Token>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/tokens/{}/revoke", self.baseurl, encode_path(& token.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "token_revoke",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**List events of a stream

Sends a `GET` request to `/v1/events`

Arguments:
- `after`: Only events after this number.
- `event_type`: Only events of this type; a trailing `*` matches the rest.
- `page_size`: How many at most; 50 if not given.
- `project`: A project's stream, by name or id. With neither, the platform's.
- `tenant`: A tenant's stream, by slug or id: everything in the tenant.
*/
    pub async fn event_list<'a>(
        &'a self,
        after: Option<i64>,
        event_type: Option<&'a str>,
        page_size: Option<i32>,
        project: Option<&'a str>,
        tenant: Option<&'a str>,
    ) -> Result<ResponseValue<types::EventPage>, Error<types::Problem>> {
        let url = format!("{}/v1/events", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("after", &after))
            .query(&progenitor_client::QueryParam::new("event_type", &event_type))
            .query(&progenitor_client::QueryParam::new("page_size", &page_size))
            .query(&progenitor_client::QueryParam::new("project", &project))
            .query(&progenitor_client::QueryParam::new("tenant", &tenant))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "event_list",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Follow a stream live, without gaps

Server-sent events; `id` is the number in the stream. Reconnect with `Last-Event-ID`. `event: reset` says that the asked place is no longer kept; `event: end` says why the server ends the stream.

Sends a `GET` request to `/v1/events/stream`

Arguments:
- `after`: Start after this number; only what happens from now on if not given. `Last-Event-ID` does the same.
- `project`: A project's stream, by name or id. With neither, the platform's.
- `tenant`: A tenant's stream, by slug or id: everything in the tenant.
- `last_event_id`: The last number that was seen.
*/
    pub async fn event_stream<'a>(
        &'a self,
        after: Option<i64>,
        project: Option<&'a str>,
        tenant: Option<&'a str>,
        last_event_id: Option<&'a str>,
    ) -> Result<ResponseValue<ByteStream>, Error<types::Problem>> {
        let url = format!("{}/v1/events/stream", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        if let Some(value) = last_event_id {
            header_map.append("Last-Event-ID", value.to_string().try_into()?);
        }
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .query(&progenitor_client::QueryParam::new("after", &after))
            .query(&progenitor_client::QueryParam::new("project", &project))
            .query(&progenitor_client::QueryParam::new("tenant", &tenant))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "event_stream",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => Ok(ResponseValue::stream(response)),
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**List webhooks

Sends a `GET` request to `/v1/webhooks`

Arguments:
- `page_size`: How many at most; 50 if not given.
- `page_token`: The token that the page before gave.
- `project`: A project's, by name or id. With neither, the platform's.
- `tenant`: A tenant's, by slug or id.
*/
    pub async fn webhook_list<'a>(
        &'a self,
        page_size: Option<i32>,
        page_token: Option<&'a str>,
        project: Option<&'a str>,
        tenant: Option<&'a str>,
    ) -> Result<ResponseValue<types::WebhookPage>, Error<types::Problem>> {
        let url = format!("{}/v1/webhooks", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("page_size", &page_size))
            .query(&progenitor_client::QueryParam::new("page_token", &page_token))
            .query(&progenitor_client::QueryParam::new("project", &project))
            .query(&progenitor_client::QueryParam::new("tenant", &tenant))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "webhook_list",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Have events pushed to a URL

Sends a `POST` request to `/v1/webhooks`

Arguments:
- `idempotency_key`: Any text of your own. The same key and body give the same answer for a day, and one effect.
- `body`
*/
    pub async fn webhook_create<'a>(
        &'a self,
        idempotency_key: &'a str,
        body: &'a types::WebhookCreate,
    ) -> Result<ResponseValue<types::Webhook>, Error<types::Problem>> {
        let url = format!("{}/v1/webhooks", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("Idempotency-Key", idempotency_key.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .post(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "webhook_create",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            201u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Show a webhook

Sends a `GET` request to `/v1/webhooks/{webhook}`

Arguments:
- `webhook`: An id or a name.
*/
    pub async fn webhook_get<'a>(
        &'a self,
        webhook: &'a str,
    ) -> Result<ResponseValue<types::Webhook>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/webhooks/{}", self.baseurl, encode_path(& webhook.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "webhook_get",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Remove a webhook

Sends a `DELETE` request to `/v1/webhooks/{webhook}`

Arguments:
- `webhook`: An id or a name.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
*/
    pub async fn webhook_delete<'a>(
        &'a self,
        webhook: &'a str,
        if_match: &'a str,
    ) -> Result<ResponseValue<types::Removed>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/webhooks/{}", self.baseurl, encode_path(& webhook.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .delete(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "webhook_delete",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Change a webhook, or switch it off or on

Sends a `PATCH` request to `/v1/webhooks/{webhook}`

Arguments:
- `webhook`: An id or a name.
- `if_match`: The version that you read, in quotes, or * for whatever it is now.
- `body`
*/
    pub async fn webhook_update<'a>(
        &'a self,
        webhook: &'a str,
        if_match: &'a str,
        body: &'a types::WebhookUpdate,
    ) -> Result<ResponseValue<types::Webhook>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/webhooks/{}", self.baseurl, encode_path(& webhook.to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(2usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        header_map.append("If-Match", if_match.to_string().try_into()?);
        #[allow(unused_mut)]
        let mut request = self
            .client
            .patch(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .json(&body)
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "webhook_update",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Show what was sent, and how it was answered

Sends a `GET` request to `/v1/webhooks/{webhook}/deliveries`

Arguments:
- `webhook`: An id or a name.
- `page_size`: How many at most; 50 if not given.
- `page_token`: The token that the page before gave.
*/
    pub async fn webhook_deliveries<'a>(
        &'a self,
        webhook: &'a str,
        page_size: Option<i32>,
        page_token: Option<&'a str>,
    ) -> Result<ResponseValue<types::WebhookDeliveryPage>, Error<types::Problem>> {
        let url = format!(
            "{}/v1/webhooks/{}/deliveries", self.baseurl, encode_path(& webhook
            .to_string()),
        );
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("page_size", &page_size))
            .query(&progenitor_client::QueryParam::new("page_token", &page_token))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "webhook_deliveries",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**List who asked for what, with what result

Sends a `GET` request to `/v1/audit`

Arguments:
- `action`: Only this action, as `noun.verb`.
- `actor`: Only this actor, by id.
- `after`: Only entries after this number.
- `page_size`: How many at most; 50 if not given.
- `project`: Only a project's entries, by name or id. With neither, the platform's chain.
- `tenant`: A tenant's chain, by slug or id.
*/
    pub async fn audit_list<'a>(
        &'a self,
        action: Option<&'a str>,
        actor: Option<&'a str>,
        after: Option<i64>,
        page_size: Option<i32>,
        project: Option<&'a str>,
        tenant: Option<&'a str>,
    ) -> Result<ResponseValue<types::AuditPage>, Error<types::Problem>> {
        let url = format!("{}/v1/audit", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("action", &action))
            .query(&progenitor_client::QueryParam::new("actor", &actor))
            .query(&progenitor_client::QueryParam::new("after", &after))
            .query(&progenitor_client::QueryParam::new("page_size", &page_size))
            .query(&progenitor_client::QueryParam::new("project", &project))
            .query(&progenitor_client::QueryParam::new("tenant", &tenant))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "audit_list",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Download a whole chain, to be verified offline

Sends a `GET` request to `/v1/audit/export`

Arguments:
- `tenant`: A tenant's chain, by slug or id; the platform's if not given.
*/
    pub async fn audit_export<'a>(
        &'a self,
        tenant: Option<&'a str>,
    ) -> Result<ResponseValue<ByteStream>, Error<types::Problem>> {
        let url = format!("{}/v1/audit/export", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .query(&progenitor_client::QueryParam::new("tenant", &tenant))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "audit_export",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => Ok(ResponseValue::stream(response)),
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Show the end of a chain

Sends a `GET` request to `/v1/audit/head`

Arguments:
- `tenant`: A tenant's chain, by slug or id; the platform's if not given.
*/
    pub async fn audit_head<'a>(
        &'a self,
        tenant: Option<&'a str>,
    ) -> Result<ResponseValue<types::AuditHead>, Error<types::Problem>> {
        let url = format!("{}/v1/audit/head", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .query(&progenitor_client::QueryParam::new("tenant", &tenant))
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "audit_head",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
    /**Show versions, health and replicas

Sends a `GET` request to `/v1/status`

*/
    pub async fn status_get<'a>(
        &'a self,
    ) -> Result<ResponseValue<types::Status>, Error<types::Problem>> {
        let url = format!("{}/v1/status", self.baseurl,);
        let mut header_map = ::reqwest::header::HeaderMap::with_capacity(1usize);
        header_map
            .append(
                ::reqwest::header::HeaderName::from_static("api-version"),
                ::reqwest::header::HeaderValue::from_static(Self::api_version()),
            );
        #[allow(unused_mut)]
        let mut request = self
            .client
            .get(url)
            .header(
                ::reqwest::header::ACCEPT,
                ::reqwest::header::HeaderValue::from_static("application/json"),
            )
            .headers(header_map)
            .build()?;
        let info = OperationInfo {
            operation_id: "status_get",
        };
        self.pre(&mut request, &info).await?;
        let result = self.exec(request, &info).await;
        self.post(&result, &info).await?;
        let response = result?;
        match response.status().as_u16() {
            200u16 => ResponseValue::from_response(response).await,
            400u16..=499u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            500u16..=599u16 => {
                Err(Error::ErrorResponse(ResponseValue::from_response(response).await?))
            }
            _ => Err(Error::UnexpectedResponse(response)),
        }
    }
}
/// Items consumers will typically use such as the Client.
pub mod prelude {
    #[allow(unused_imports)]
    pub use super::Client;
}
