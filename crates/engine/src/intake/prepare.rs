//! From what a caller hands in to what is written: checked and turned into text before any transaction begins.

use docket_core::content::{Digest, check_json};
use docket_core::id::{CollectionKey, ItemId, LaneKey};
use docket_core::item::{Content, FileContent, ItemDetails, JSON_MAX};
use docket_core::{Refusal, Refused};
use docket_store::hot::NewItem;

/// A submission that has passed its checks. What it holds of JSON it holds as text: as a tree it would take many times as much.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// Without what stands here as text.
    pub(crate) details: ItemDetails,
    pub(crate) digest: Digest,
    pub(crate) content_key: Option<Digest>,
    file: Option<FileContent>,
    payload: Option<String>,
    metadata: Option<String>,
    fields: Option<String>,
    display_payload: Option<String>,
    submitted_by: String,
}

impl Prepared {
    /// How much of it is written.
    pub(crate) fn bytes(&self) -> usize {
        let texts = [&self.payload, &self.metadata, &self.fields, &self.display_payload];
        texts.into_iter().flatten().map(String::len).sum()
    }

    pub(crate) fn new(content: Content, mut details: ItemDetails, submitted_by: &str) -> Refused<Self> {
        details.check()?;
        let payload = match &content {
            Content::Json(value) if value.is_null() => {
                return Err(Refusal::invalid("payload", "must not be empty"));
            }
            Content::Json(value) => Some(check_json("payload", value, JSON_MAX)?),
            Content::File(_) => None,
        };
        let digest = content.digest();
        let text = |value: serde_json::Value| value.to_string();
        let fields = match details.fields.take() {
            Some(fields) => Some(fields_text(&fields)?),
            None => None,
        };
        Ok(Self {
            digest,
            content_key: content
                .identifies(details.external_id.is_some())
                .then_some(digest),
            payload,
            metadata: details.metadata.take().map(text),
            fields,
            display_payload: details.display_payload.take().map(text),
            submitted_by: submitted_by.to_owned(),
            file: match content {
                Content::Json(_) => None,
                Content::File(file) => Some(file),
            },
            details,
        })
    }

    /// The key of its bytes in the blob store.
    pub(crate) fn blob_key(&self) -> Option<&str> {
        self.file.as_ref().map(|file| file.blob_key.as_str())
    }

    /// The row to be written.
    pub(crate) fn row(
        &self,
        id: ItemId,
        collection: CollectionKey,
        lane: Option<LaneKey>,
        to_review: bool,
    ) -> NewItem {
        let file = self.file.as_ref();
        NewItem {
            collection,
            id,
            lane,
            external_id: self.details.external_id.clone(),
            content_hash: self.digest,
            content_key: self.content_key,
            is_file: file.is_some(),
            filename: file.and_then(|file| file.filename.clone()),
            media_type: file.map(|file| file.media_type.clone()),
            size: file.map_or_else(
                || self.payload.as_ref().map_or(0, String::len) as u64,
                |file| file.size,
            ),
            blob_key: file.map(|file| file.blob_key.clone()),
            payload: self.payload.clone(),
            metadata: self.metadata.clone(),
            fields: self.fields.clone(),
            display_payload: self.display_payload.clone(),
            confidence: self.details.confidence,
            line_item_count: self.details.line_item_count.map(i64::from),
            total_amount: self.details.total_amount,
            deadline: self.details.deadline,
            to_review: lane.is_none() && to_review,
            submitted_by: self.submitted_by.clone(),
        }
    }
}

/// The text of checked fields, itself checked.
pub(crate) fn fields_text(fields: &[docket_core::field::MachineField]) -> Refused<String> {
    let value = serde_json::to_value(fields)
        .map_err(|error| Refusal::invalid("fields", format!("cannot be written as JSON: {error}")))?;
    check_json("fields", &value, JSON_MAX)
}
