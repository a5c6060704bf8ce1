//! Uploads: a file's bytes are streamed to the blob store while they are hashed (rules I3, I4, I7).
//!
//! Before any byte is taken the limit is checked and a place reserved, and a digest that the client sent first is looked up. The
//! bytes belong to the upload's row until an item takes them over, in the transaction that writes it; whatever happens in
//! between, the sweeper finds them by that row.

use std::sync::Arc;
use std::time::Duration;

use docket_core::content::{Digest, Hasher};
use docket_core::id::{ItemId, UploadId};
use docket_core::item::{Content, FileContent, ItemDetails};
use docket_core::name::{CollectionId, NAME_MAX, TEXT_MAX, check_text};
use docket_core::scope::Scope;
use docket_core::tenant::UploadLimit;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::table::{collection, item, tenant, upload};
use docket_store::{Error, Result, Tx};
use object_store::buffered::BufWriter;
use tokio::io::AsyncWriteExt as _;

use super::classify::{Class, KnownItems};
use super::prepare::Prepared;
use super::submit::{SubmitCall, SubmittedItem};
use crate::blob::failed;
use crate::engine::{Engine, Kernel};
use crate::once::{Asked, Once};

/// What a writer has begun when its client goes away may come to its end a little later: its bytes are swept after that.
const SWEPT_AFTER_MS: i64 = 60_000;
/// So long is a store for files asked to take back the parts of an upload that was given up.
const ABORT_MAX: Duration = Duration::from_secs(10);

/// A file that is to come.
#[derive(Clone, Debug)]
pub struct UploadRequest {
    /// Where to.
    pub collection: CollectionId,
    /// Its name.
    pub filename: Option<String>,
    /// Its media type.
    pub media_type: String,
    /// Its digest, where the client knows it.
    pub digest: Option<Digest>,
    /// Its size, where the client knows it.
    pub size: Option<u64>,
    /// What comes with it.
    pub details: ItemDetails,
    /// The same key again returns the first answer (rule I6).
    pub idempotency_key: Option<String>,
}

impl UploadRequest {
    /// What is asked under the idempotency key. The bytes are not part of it: they are still to come.
    fn asked(&self, scope: &Scope) -> Result<Option<Asked>> {
        let (filename, media_type) = (&self.filename, &self.media_type);
        let text = format!(
            "{}\n{filename:?}\n{media_type:?}\n{:?}",
            self.collection.as_str(),
            self.details
        );
        Asked::new(
            scope.tenant.as_str(),
            "upload",
            self.idempotency_key.clone(),
            &text,
        )
    }
}

/// Whether the bytes are wanted.
#[derive(Debug)]
pub enum UploadStart {
    /// They are there already.
    Duplicate(SubmittedItem),
    /// The same idempotency key has brought this before.
    Repeated(Once<SubmittedItem>),
    /// They are.
    Ready(Box<Upload>),
}

/// An upload under way.
pub struct Upload {
    engine: Engine,
    scope: Scope,
    request: UploadRequest,
    asked: Option<Asked>,
    id: UploadId,
    blob_key: String,
    /// None once it was given up.
    writer: Option<BufWriter>,
    hasher: Hasher,
    size: u64,
    expires_at: Timestamp,
    /// Whether every piece so far was taken to its end.
    whole: bool,
    /// Whether its place and its bytes are still its own.
    open: bool,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload")
            .field("id", &self.id)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

struct Begin {
    scope: Scope,
    request: UploadRequest,
    asked: Option<Asked>,
    id: UploadId,
    blob_key: String,
    now: Timestamp,
    expires_at: Timestamp,
}

impl Engine {
    /// Begins an upload: refuses it, knows its bytes already, or reserves its place and asks for the bytes.
    pub async fn upload(&self, scope: &Scope, request: UploadRequest) -> Result<UploadStart> {
        request.details.check()?;
        if let Some(filename) = &request.filename {
            check_text("filename", filename, TEXT_MAX)?;
        }
        check_text("mediaType", &request.media_type, NAME_MAX)?;
        if let Some(size) = request.size {
            self.check_size(size)?;
        }
        let asked = request.asked(scope)?;
        let now = self.kernel.clock.now();
        let id = UploadId::new(now, self.kernel.random.as_ref());
        let begin = Begin {
            scope: scope.clone(),
            request: request.clone(),
            asked: asked.clone(),
            id,
            blob_key: format!("blobs/{id}"),
            now,
            expires_at: now.plus_ms(self.kernel.config.upload_ms),
        };
        let (blob_key, expires_at) = (begin.blob_key.clone(), begin.expires_at);
        let known = self
            .kernel
            .store
            .run("upload_begin", begin, |tx, p| Box::pin(upload_begin(tx, p)))
            .await?;
        match known {
            Some(Known::Item(item)) => return Ok(UploadStart::Duplicate(item)),
            Some(Known::Answer(first)) => return Ok(UploadStart::Repeated(first)),
            None => {}
        }
        let writer = Some(self.blobs.write(&blob_key));
        Ok(UploadStart::Ready(Box::new(Upload {
            engine: self.clone(),
            scope: scope.clone(),
            request,
            asked,
            id,
            blob_key,
            writer,
            hasher: Hasher::default(),
            size: 0,
            expires_at,
            whole: true,
            open: true,
        })))
    }

    async fn has_other_bytes(&self, id: ItemId, digest: Digest) -> Result<bool> {
        let look = self.kernel.store.read("upload_first", (id, digest), |tx, p| {
            Box::pin(has_other_bytes(tx, p.0, p.1))
        });
        look.await
    }

    /// Whether an upload may be answered without its bytes, by its key or its digest; for whoever has no place for it, and can say so
    /// before it begins.
    pub async fn upload_is_known(&self, scope: &Scope, request: &UploadRequest) -> Result<bool> {
        if request.idempotency_key.is_none() && request.digest.is_none() {
            return Ok(false);
        }
        let params = (scope.clone(), request.clone(), request.asked(scope)?);
        let look = self.kernel.store.read("upload_is_known", params, |tx, p| {
            Box::pin(upload_is_known(tx, &p.0, &p.1, p.2.as_ref()))
        });
        look.await
    }

    fn check_size(&self, size: u64) -> Result<()> {
        let limit = self.kernel.config.file_max;
        if size > limit {
            return Err(Refusal::TooLarge {
                what: "the file".into(),
                size,
                limit,
            }
            .into());
        }
        Ok(())
    }
}

impl Upload {
    /// Takes the next bytes. After one piece that was not taken, be it that the caller stopped waiting for it, the file cannot be
    /// finished any more.
    pub async fn write(&mut self, bytes: bytes::Bytes) -> Result<()> {
        let before = std::mem::replace(&mut self.whole, false);
        self.engine.check_size(self.size + bytes.len() as u64)?;
        self.size += bytes.len() as u64;
        self.hasher.update(&bytes);
        let taken = self.writer_in_time().await?.put(bytes).await;
        taken.map_err(|error| self.not_taken(error))?;
        self.whole = before;
        Ok(())
    }

    /// [`Upload::finish_once`] for those who have no use for whether it was the first with its key.
    pub async fn finish(self) -> Result<SubmittedItem> {
        self.finish_once().await.map(|once| once.answer)
    }

    /// All bytes are there: makes the item, or finds out that it was there already, or that another upload with the same key was faster.
    pub async fn finish_once(mut self) -> Result<Once<SubmittedItem>> {
        self.writer_in_time().await?;
        let digest = self.hasher.clone().finish();
        let problem = match self.request.digest {
            _ if !self.whole => Some(Refusal::Conflict {
                problem: "a part of the file was not taken; send the file again".to_owned(),
            }),
            _ if self.size == 0 => Some(Refusal::invalid("file", "must not be empty")),
            Some(announced) if announced != digest => Some(Refusal::invalid(
                "digest",
                format!("the bytes have SHA-256 {digest}, not the one announced"),
            )),
            _ => None,
        };
        if let Some(refusal) = problem {
            self.give_up().await?;
            return Err(refusal.into());
        }
        let written = self.writer_in_time().await?.shutdown().await;
        written.map_err(|error| self.not_taken(error))?;
        let file = FileContent {
            filename: self.request.filename.clone(),
            media_type: self.request.media_type.clone(),
            size: self.size,
            digest,
            blob_key: self.blob_key.clone(),
        };
        let prepared = Prepared::new(
            Content::File(file),
            self.request.details.clone(),
            self.scope.actor.as_str(),
        )?;
        let call = SubmitCall {
            scope: self.scope.clone(),
            collection: self.request.collection.clone(),
            items: Arc::from([Ok(prepared)]),
            key: self.asked.clone(),
            upload: Some((self.id, self.expires_at)),
            is_finished: false,
        };
        let answer = self.engine.submit_call(call).await?;
        // Taken, known or refused: its place and its bytes have been seen to.
        self.open = false;
        let mut answer = answer?;
        let result = answer.results.pop();
        let item = result.ok_or(Error::Unanswered { operation: "submit" })??;
        let differs = answer.replayed && self.engine.has_other_bytes(item.id, digest).await?;
        Ok(Once {
            answer: item,
            replayed: answer.replayed,
            request_differs: answer.request_differs || differs,
        })
    }

    /// Gives the upload up: its place is free at once, its bytes are swept.
    pub async fn abort(mut self) -> Result<()> {
        self.give_up().await
    }

    async fn give_up(&mut self) -> Result<()> {
        if let Some(mut writer) = self.writer.take() {
            // Bytes that cannot be taken back now are the sweeper's.
            match tokio::time::timeout(ABORT_MAX, writer.abort()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the parts of an upload were not taken back"),
                Err(_) => tracing::debug!("the parts of an upload were not taken back in time"),
            }
        }
        if self.open {
            discard(&self.engine.kernel, self.id, self.engine.kernel.clock.now()).await?;
            self.open = false;
        }
        Ok(())
    }

    /// The writer, while there is time. Once that is over the upload is given up: the sweeper may take its bytes away at any moment.
    async fn writer_in_time(&mut self) -> Result<&mut BufWriter> {
        if self.is_over() {
            self.give_up().await?;
        }
        let expired = self.expired();
        self.writer.as_mut().ok_or(expired)
    }

    fn is_over(&self) -> bool {
        self.engine.kernel.clock.now() >= self.expires_at
    }

    fn expired(&self) -> Error {
        let expired_at = self.expires_at;
        Refusal::UploadExpired { expired_at }.into()
    }

    /// Why bytes were not taken. What the sweeper has taken away under the writer is no fault of the store for files.
    fn not_taken(&self, error: impl std::error::Error + Send + Sync + 'static) -> Error {
        match self.is_over() {
            true => self.expired(),
            false => failed(error),
        }
    }
}

impl Drop for Upload {
    /// An upload that nobody goes on with, because its client has gone, frees its place at once. A killed process leaves that to the
    /// expiry.
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let (kernel, id) = (Arc::clone(&self.engine.kernel), self.id);
        let due_at = kernel.clock.now().plus_ms(SWEPT_AFTER_MS);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = discard(&kernel, id, due_at).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "an upload waits for its expiry"
                    );
                }
            });
        }
    }
}

async fn discard(kernel: &Kernel, id: UploadId, due_at: Timestamp) -> Result<()> {
    let params = (id, due_at);
    kernel
        .store
        .run("upload_discard", params, |tx, p| {
            Box::pin(upload::discard(tx, p.0, p.1))
        })
        .await
}

/// What makes the bytes needless.
enum Known {
    Item(SubmittedItem),
    Answer(Once<SubmittedItem>),
}

async fn upload_begin(tx: &mut Tx, p: &Begin) -> Result<Option<Known>> {
    let id = p.request.collection.as_str();
    let tenant_id = p.scope.tenant.as_str();
    let found = collection::get(tx, id)
        .await?
        .filter(|found| found.tenant_id == tenant_id);
    let found = found.ok_or_else(|| Refusal::not_found("collection", id))?;
    if let Some(first) = first_answer(tx, p).await? {
        return Ok(Some(Known::Answer(first)));
    }
    let limited = found.uploads != UploadLimit::Unlimited;
    let mut allowance = match limited {
        true => tenant::lock_window(tx, tenant_id, found.uploads, p.now)
            .await?
            .allowance(found.uploads, p.now),
        false => docket_core::limit::Allowance {
            limit: None,
            remaining: u64::MAX,
            wait_ms: 0,
        },
    };
    if let Some(digest) = p.request.digest {
        // With the digest it can be said now what the finished upload would be.
        let file = FileContent {
            filename: None,
            media_type: p.request.media_type.clone(),
            size: 0,
            digest,
            blob_key: p.blob_key.clone(),
        };
        let prepared = Prepared::new(
            Content::File(file),
            p.request.details.clone(),
            p.scope.actor.as_str(),
        )?;
        let mut known = KnownItems::look_up(tx, &[(found.key, &prepared)]).await?;
        let new = ItemId::from_uuid(p.id.uuid());
        if let Class::Duplicate(id) = known.classify(found.key, &prepared, new, &mut allowance)? {
            let item = SubmittedItem {
                id,
                job: None,
                duplicate: true,
                versioned: false,
            };
            if let Some(asked) = &p.asked {
                // As an upload keeps it that had its bytes sent first.
                let answer: [Refused<_>; 1] = [Ok(item.clone())];
                asked.keep(tx, &answer, p.now).await?;
            }
            return Ok(Some(Known::Item(item)));
        }
    } else if allowance.remaining == 0 {
        let limit = allowance.limit.unwrap_or(0);
        return Err(Refusal::RateLimited {
            limit,
            wait_ms: allowance.wait_ms,
        }
        .into());
    }
    upload::insert(tx, p.id, tenant_id, &p.blob_key, limited, p.expires_at).await?;
    Ok(None)
}

async fn upload_is_known(
    tx: &mut Tx,
    scope: &Scope,
    request: &UploadRequest,
    asked: Option<&Asked>,
) -> Result<bool> {
    if let Some(asked) = asked
        && asked.first::<serde_json::Value>(tx).await?.is_some()
    {
        return Ok(true);
    }
    let found = collection::get(tx, request.collection.as_str()).await?;
    let own = found.filter(|found| found.tenant_id == scope.tenant.as_str());
    let (Some(own), Some(digest)) = (own, request.digest) else {
        return Ok(false);
    };
    Ok(match request.details.external_id.clone() {
        Some(id) => !item::by_external(tx, &[(own.key, id)]).await?.is_empty(),
        None => !item::by_content(tx, &[(own.key, digest)]).await?.is_empty(),
    })
}

async fn first_answer(tx: &mut Tx, p: &Begin) -> Result<Option<Once<SubmittedItem>>> {
    let Some(asked) = &p.asked else {
        return Ok(None);
    };
    let Some(first) = asked.first::<Vec<Refused<SubmittedItem>>>(tx).await? else {
        return Ok(None);
    };
    let item = first
        .answer
        .into_iter()
        .next()
        .ok_or(Error::Unanswered { operation: "submit" })??;
    let differs = match p.request.digest {
        Some(digest) => has_other_bytes(tx, item.id, digest).await?,
        None => false,
    };
    Ok(Some(Once {
        answer: item,
        replayed: first.replayed,
        request_differs: first.request_differs || differs,
    }))
}

/// Whether an item was made of other bytes than these; of one that had a next version since it is not known any more.
async fn has_other_bytes(tx: &mut Tx, id: ItemId, digest: Digest) -> Result<bool> {
    let item = item::get(tx, id).await?;
    Ok(item.is_some_and(|item| item.version == 1 && item.content_hash != digest))
}
