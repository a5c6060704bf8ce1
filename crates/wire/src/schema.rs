//! Schemas of what is a plain string or number in Rust: names, texts, times, enumerations of the rules.
//!
//! Each of them stands for itself in the OpenAPI document, so that a limit is written there once.

use std::borrow::Cow;

use docket_core::item::ItemStatus as CoreItemStatus;
use docket_core::name::{NAME_MAX, TEXT_MAX};
use docket_core::notification::{DeliveryState, SUBJECT_TEMPLATE_MAX};
use docket_core::notify::{self, ChannelKind};
use docket_core::review::{REASON_MAX, ReviewState};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// What a name consists of: no white space, no control characters.
pub const NAME_PATTERN: &str = r"^[^\s\x00-\x1f\x7f-\x9f]+$";
/// What a short text consists of: no control characters.
pub const TEXT_PATTERN: &str = r"^[^\x00-\x1f\x7f-\x9f]+$";
/// What people write consists of: no control characters but line breaks and tabs.
const PROSE_PATTERN: &str = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$";

macro_rules! schemas {
    ($($(#[$doc:meta])* $name:ident = $build:expr;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    $build.into()
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed(stringify!($name))
                }
            }
        )+
    };
}

fn text(max: usize, pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(max))
        .pattern(Some(pattern))
}

fn formatted(format: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::Custom(format.to_owned())))
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> ObjectBuilder {
    let words: Vec<_> = words.into_iter().map(str::to_owned).collect();
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words))
}

fn constant(value: bool) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Boolean)
        .enum_values(Some([value]))
}

schemas! {
    /// A name: an id of a tenant, a collection, a pipeline, a step, a worker.
    Name = text(NAME_MAX, NAME_PATTERN)
        .description(Some("A name of the caller's own: no white space and no control characters."))
        .examples([serde_json::json!("invoices")]);
    /// A short text without control characters.
    ShortText = text(TEXT_MAX, TEXT_PATTERN)
        .description(Some("A short text without control characters."))
        .examples([serde_json::json!("INV-1001")]);
    /// A field's name, an actor's: short, without control characters.
    FieldName = text(NAME_MAX, TEXT_PATTERN)
        .description(Some("A field's name, without control characters."))
        .examples([serde_json::json!("total")]);
    /// Whom to tell, and by which channel.
    Recipient = text(notify::RECIPIENT_MAX, r"^(email|webhook|file):[^\x00-\x1f\x7f-\x9f]+$")
        .description(Some("A channel and an address in it."))
        .examples([serde_json::json!("email:a@example.com")]);
    /// A UUID of version 7.
    Id = formatted("uuid")
        .description(Some("An id that Docket has given out."))
        .examples([serde_json::json!("01997a2c-5c00-7a3b-8c4d-5e6f708192a3")]);
    /// A time in RFC 3339.
    Time = formatted("date-time")
        .description(Some("A moment in RFC 3339; answers are in UTC, to the millisecond."))
        .examples([serde_json::json!("2026-09-21T14:13:20.000Z")]);
    /// The token of a lease.
    LeaseToken = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(0))
        .maximum(Some(9_007_199_254_740_991_i64))
        .description(Some("Rises with every hold of the same job or review; every word of its holder carries it."))
        .examples([serde_json::json!(1)]);
    /// The length of a lease.
    LeaseSeconds = ObjectBuilder::new()
        .schema_type(Type::Number)
        .minimum(Some(0.01))
        .maximum(Some(604_800))
        .description(Some("How long a lease lasts without a sign of life, in seconds."))
        .examples([serde_json::json!(600)]);
    /// The state of an item.
    ItemStatus = words(CoreItemStatus::ALL.map(CoreItemStatus::as_str))
        .description(Some("The state of an item."));
    /// The state of a review.
    ReviewStatus = words(ReviewState::ALL.map(ReviewState::as_str))
        .description(Some("The state of a review."));
    /// How urgent a review is.
    Band = words(["high", "medium", "low"])
        .description(Some("How urgent a review is: high from a priority of 70 on, medium from 40 on, low below."));
    /// How it stands with a deadline.
    SlaLevel = words(["on_track", "attention", "urgent", "overdue"])
        .description(Some("Over 6 hours left, 2 to 6, under 2, past."));
    /// Why somebody did something.
    Reason = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(REASON_MAX))
        .pattern(Some(PROSE_PATTERN))
        .description(Some("What people write, line breaks included."))
        .examples([serde_json::json!("not readable")]);
    /// What a notification says first.
    Subject = text(notify::SUBJECT_MAX, TEXT_PATTERN)
        .description(Some("One line."))
        .examples([serde_json::json!("INV-1001 was approved")]);
    /// What a notification says.
    MessageBody = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(notify::BODY_MAX))
        .pattern(Some(PROSE_PATTERN))
        .description(Some("Plain text, line breaks included."))
        .examples([serde_json::json!("INV-1 was approved.")]);
    /// A template of a subject.
    SubjectTemplate = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(SUBJECT_TEMPLATE_MAX))
        .description(Some("A template of one line; where it makes nothing, the standard subject is used."))
        .examples([serde_json::json!("{{ item.name }} was {{ outcome }}")]);
    /// A template of a body.
    BodyTemplate = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(notify::BODY_MAX))
        .description(Some("A template of plain text."))
        .examples([serde_json::json!("{% for c in corrections %}{{ c.field }}: {{ c.new }}{% endfor %}")]);
    /// What has become of a notification.
    NotificationStatus = words(["pending", "in_progress", "succeeded", "retryable_failed", "failed", "cancelled"])
        .description(Some("Derived from the deliveries to the required recipients."));
    /// Where a delivery stands.
    DeliveryStatus = words(DeliveryState::ALL.map(DeliveryState::as_str))
        .description(Some("Where a delivery stands."));
    /// What becomes of what nobody can tell.
    OnUnknown = words([notify::OnUnknown::Hold, notify::OnUnknown::Resend].map(notify::OnUnknown::as_str))
        .description(Some("What becomes of a message of which nobody can tell whether it was sent."));
    /// A channel.
    ChannelName = words(ChannelKind::ALL.map(ChannelKind::as_str))
        .description(Some("A way to tell somebody."));
    /// The word for no limit.
    Unlimited = words(["unlimited"]);
    /// Always true.
    True = constant(true);
    /// Always false.
    False = constant(false);
}

impl PartialSchema for crate::problem::Code {
    fn schema() -> RefOr<Schema> {
        words(Self::ALL.iter().map(|code| code.as_str()))
            .description(Some("What programs branch on. Stable; more may be added."))
            .into()
    }
}

impl ToSchema for crate::problem::Code {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Code")
    }
}

impl PartialSchema for crate::time::Time {
    fn schema() -> RefOr<Schema> {
        Time::schema()
    }
}

impl ToSchema for crate::time::Time {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Time")
    }
}
