//! The OpenAPI document: made from the handlers, completed with what is the same for all of them.
//!
//! It is committed as `openapi.json` at the repository's root; a test fails when the two differ and says how to write it anew.

use std::collections::BTreeMap;

use docket_wire::insight::TrainingExample;
use docket_wire::schema::ChannelName;
use docket_wire::{Code, Problem};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, HeaderBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses, Modify, OpenApi as _};

/// What the document begins with.
#[derive(Debug, utoipa::OpenApi)]
#[openapi(
    info(
        title = "Docket",
        description = "One durable queue for work that machines do and people check.\n\nSend `Authorization: Bearer …` with an \
                       API key or a JWT. Errors are `application/problem+json` with a stable `code`. Lists take `limit` and \
                       `cursor`. Creating calls take `Idempotency-Key`: the same key returns the first answer and creates nothing; \
                       such an answer carries `Idempotency-Replayed: true`, and `Idempotency-Request-Differs: true` where the first \
                       call said something else. Unknown properties are refused, and so are whole numbers of more than 64 bits, which \
                       would be rounded: send them as strings.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "Administration", description = "Keys, tenants, collections, pipelines, reviewers, pauses."),
        (name = "Intake", description = "Items: in, and what becomes of them."),
        (name = "Work", description = "The words between workers and Docket."),
        (name = "Review", description = "What people decide, the most urgent first."),
        (name = "Review service", description = "The same for a service that has authenticated the reviewers whom it speaks for."),
        (name = "Notifications", description = "Who is told of what, once, and what became of it."),
        (name = "Log", description = "What happened, to what, by whom."),
        (name = "Process", description = "Whether the server lives.")
    ),
    components(schemas(Problem, Code, TrainingExample, ChannelName)),
    modifiers(&Credentials)
)]
pub(crate) struct Base;

#[derive(Debug)]
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, document: &mut OpenApi) {
        let mut bearer = Http::new(HttpAuthScheme::Bearer);
        bearer.description = Some("An API key (`dk_…`) or a JWT.".to_owned());
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
}

/// The whole document.
pub fn document() -> OpenApi {
    let (_, mut document) = crate::router::api().split_for_parts();
    complete(&mut document);
    deprecate(&mut document);
    document
}

/// The document as it is served and committed.
pub fn document_text() -> String {
    let text = serde_json::to_string_pretty(&document());
    text.unwrap_or_default() + "\n"
}

fn complete(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let open = !path.starts_with("/api/") && !path.starts_with("/internal/");
        for operation in operations(item) {
            for parameter in operation.parameters.iter_mut().flatten() {
                if let RefOr::T(parameter) = parameter {
                    parameter.schema = parameter.schema.take().map(never_null);
                }
            }
            add_problem(operation, 500, Code::Internal, "A fault of the server.");
            if open {
                operation.security = Some(Vec::new());
                continue;
            }
            operation.security = Some(vec![SecurityRequirement::new("bearer", Vec::<String>::new())]);
            add_problem(
                operation,
                401,
                Code::Unauthorized,
                "No credentials, or none that count.",
            );
            add_problem(operation, 403, Code::Forbidden, "The wrong role.");
            add_problem(
                operation,
                422,
                Code::ValidationFailed,
                "The request is wrong; `path` says where.",
            );
            add_problem(
                operation,
                429,
                Code::RateLimited,
                "Too many; `Retry-After` says when to come back.",
            );
            add_problem(operation, 503, Code::Unavailable, "Not available at the moment.");
            if operation.request_body.is_some() {
                add_problem(
                    operation,
                    408,
                    Code::RequestTimeout,
                    "The body did not arrive in time.",
                );
                add_problem(
                    operation,
                    413,
                    Code::PayloadTooLarge,
                    "More bytes than are taken, or values that would take too much memory.",
                );
                add_problem(
                    operation,
                    415,
                    Code::UnsupportedMediaType,
                    "A body of another type than is taken.",
                );
            }
        }
    }
}

/// Marks the calls of an older contract.
fn deprecate(document: &mut OpenApi) {
    for (_, item) in document
        .paths
        .paths
        .iter_mut()
        .filter(|(path, _)| path.ends_with("/pieces/unreviewed"))
    {
        for operation in operations(item) {
            operation.deprecated = Some(utoipa::openapi::Deprecated::True);
        }
    }
}

/// A parameter is there or left out; only a body can say null.
fn never_null(schema: RefOr<Schema>) -> RefOr<Schema> {
    let is_null = |schema: &RefOr<Schema>| matches!(schema, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null));
    match schema {
        RefOr::T(Schema::Object(mut object)) => {
            if let SchemaType::Array(types) = &object.schema_type {
                let rest = types.iter().find(|kind| **kind != Type::Null).cloned();
                object.schema_type = rest.map_or(SchemaType::AnyValue, SchemaType::Type);
            }
            RefOr::T(Schema::Object(object))
        }
        RefOr::T(Schema::OneOf(mut one_of)) => {
            one_of.items.retain(|item| !is_null(item));
            match one_of.items.len() {
                1 => one_of.items.remove(0),
                _ => RefOr::T(Schema::OneOf(one_of)),
            }
        }
        other => other,
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ]
    .into_iter()
    .filter_map(Option::as_mut)
}

fn add_problem(operation: &mut Operation, status: u16, code: Code, description: &str) {
    let responses = &mut operation.responses.responses;
    responses
        .entry(status.to_string())
        .or_insert_with(|| problem(status, code, description).into());
}

fn problem(status: u16, code: Code, description: &str) -> Response {
    let example = Problem::new(code, status, description);
    let mut content = Content::new(Some(Ref::from_schema_name("Problem")));
    content.example = serde_json::to_value(example).ok();
    let response = ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", content);
    if matches!(status, 429 | 503) {
        let seconds = utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::Type::Integer)
            .minimum(Some(0));
        let header = HeaderBuilder::new()
            .schema(Some(seconds))
            .description(Some("Seconds until it is worth another try."));
        return response.header("Retry-After", header.build()).build();
    }
    response.build()
}

macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident = $status:literal, $code:ident, $description:literal;)+) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub(crate) struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    let response = problem($status, Code::$code, $description);
                    [($status.to_string(), response.into())].into()
                }
            }
        )+
    };
}

problems! {
    /// For calls that name something.
    Missing = 404, NotFound, "What is named is not there, or is another tenant's.";
    /// For calls that the present state may not allow.
    Conflicts = 409, Conflict, "The present state does not allow it; `code` says what stands in the way.";
}

/// The header of creating calls.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes what the extractor reads")]
pub(crate) struct IdempotencyHeader {
    /// The same key again returns the first answer and creates nothing.
    #[param(
        rename = "Idempotency-Key",
        min_length = 1,
        max_length = 512,
        pattern = r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$"
    )]
    key: Option<String>,
}

/// The headers of an upload.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes what the handler reads")]
pub(crate) struct UploadHeaders {
    /// The file's name, as percent-encoded UTF-8.
    #[param(
        rename = "X-Filename",
        min_length = 1,
        max_length = 512,
        pattern = r"^[A-Za-z0-9._~-]+$"
    )]
    filename: Option<String>,
    /// The file's name, where `X-Filename` is not there: `attachment; filename="scan.pdf"` or `filename*=UTF-8''…`.
    #[param(
        rename = "Content-Disposition",
        pattern = r"^attachment; filename=[A-Za-z0-9._-]{1,100}$"
    )]
    disposition: Option<String>,
    /// The file's SHA-256, `sha-256=:base64:`; bytes that are known already need not be sent.
    #[param(
        rename = "Repr-Digest",
        pattern = r"^sha-256=:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=:$"
    )]
    digest: Option<String>,
}

/// The headers of a download.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes what the handler reads")]
pub(crate) struct RangeHeaders {
    /// The part that is wanted: `bytes=0-1023`. What cannot be read as one part is passed over, as HTTP has it.
    #[param(rename = "Range", example = "bytes=0-1023")]
    range: Option<String>,
    /// The `ETag` of what is there already.
    #[param(rename = "If-None-Match")]
    none_match: Option<String>,
}

/// The document's base, for the router.
pub(crate) fn base() -> OpenApi {
    let mut base = Base::openapi();
    base.info.version = env!("CARGO_PKG_VERSION").to_owned();
    base
}
