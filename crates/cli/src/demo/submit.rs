//! Intake: a batch, the same call again, a file, the same bytes again, and more than a tier allows.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use docket_core::clock::duration_in_words;
use docket_core::content::Digest;
use docket_core::id::ItemId;
use docket_core::item::ItemDetails;
use docket_core::{Refusal, Refused};
use docket_engine::{Submit, SubmitAnswer, SubmitItem, SubmittedItem, UploadRequest, UploadStart};
use serde_json::json;

use super::tell::Teller;
use super::world::{Tenant, World};

const FILE_BYTES: usize = 260_000;
const CHUNK_BYTES: usize = 64 * 1024;
const MEDIUM_ITEMS: u32 = 3;
/// Two more than a free tenant may submit in an hour.
const SMALL_ITEMS: u32 = 12;

/// An item by its name, as the demonstration shows it.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) id: ItemId,
    pub(super) tenant: Tenant,
}

/// What came in.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) items: Vec<Named>,
    /// The last item of the tenant that runs one job at a time.
    pub(super) last_small: Named,
    /// By tenant: taken, duplicates, refused.
    pub(super) counts: [[usize; 3]; 3],
}

impl Intake {
    pub(super) fn item(&self, name: &str) -> Result<&Named> {
        let found = self.items.iter().find(|item| item.name == name);
        found.with_context(|| format!("{name} was not submitted"))
    }

    /// The last item of each tenant.
    pub(super) fn last_of_each(&self) -> Vec<Named> {
        let mut last: Vec<Named> = Vec::new();
        for item in &self.items {
            match last.iter_mut().find(|other| other.tenant.id == item.tenant.id) {
                Some(other) => *other = item.clone(),
                None => last.push(item.clone()),
            }
        }
        last
    }
}

pub(super) async fn all(world: &World, teller: &Teller) -> Result<Intake> {
    let mut items = Vec::new();
    let mut counts = [[0; 3]; 3];

    let large = world.large()?;
    let names = names("INV", 1001, world.items);
    let first = submit(world, &large, &names, Some("monday-batch")).await?;
    note(&mut items, &mut counts[0], &large, &names, &first.results);
    teller.came_in(&large, &format!("a batch of {}", names.len()), &summary(&first))?;
    let again = submit(world, &large, &names, Some("monday-batch")).await?;
    if !again.replayed {
        bail!("the repeated call was carried out twice");
    }
    teller.came_in(
        &large,
        "the same call again",
        "same idempotency key: the first answer, nothing created",
    )?;

    let medium = world.medium()?;
    upload_twice(world, teller, &medium, &mut items, &mut counts[1]).await?;
    let names = self::names("contract", 1, MEDIUM_ITEMS);
    let answer = submit(world, &medium, &names, None).await?;
    note(&mut items, &mut counts[1], &medium, &names, &answer.results);
    teller.came_in(&medium, &format!("a batch of {}", names.len()), &summary(&answer))?;

    let small = world.small()?;
    let names = self::names("receipt", 1, SMALL_ITEMS);
    let answer = submit(world, &small, &names, None).await?;
    note(&mut items, &mut counts[2], &small, &names, &answer.results);
    teller.came_in(&small, &format!("a batch of {}", names.len()), &summary(&answer))?;
    if let Some(refusal) = refusals(&answer).next() {
        teller.came_in_more(&format!("\"{refusal}\""))?;
        if let Refusal::RateLimited { wait_ms, .. } = refusal {
            let minutes = duration_in_words((wait_ms + 59_999) / 60_000 * 60_000);
            teller.came_in_more(&format!("the next place is free in {minutes}"))?;
        }
    }

    let last_small = items.last().cloned().context("nothing was taken")?;
    Ok(Intake {
        items,
        last_small,
        counts,
    })
}

pub(super) fn names(prefix: &str, from: u32, count: u32) -> Vec<String> {
    (from..from + count).map(|n| format!("{prefix}-{n}")).collect()
}

pub(super) async fn submit(
    world: &World,
    tenant: &Tenant,
    names: &[String],
    key: Option<&str>,
) -> Result<SubmitAnswer> {
    let item = |name: &String| SubmitItem {
        payload: json!({ "document": name, "pages": 1 }),
        details: ItemDetails {
            external_id: Some(name.clone()),
            ..ItemDetails::default()
        },
    };
    let call = Submit {
        collection: tenant.collection.clone(),
        items: names.iter().map(item).collect(),
        idempotency_key: key.map(str::to_owned),
    };
    Ok(world.engine.submit(&tenant.scope()?, call).await?)
}

/// Sends a file in pieces, and then its digest alone.
async fn upload_twice(
    world: &World,
    teller: &Teller,
    tenant: &Tenant,
    items: &mut Vec<Named>,
    counts: &mut [usize; 3],
) -> Result<()> {
    let name = "lease-2026.pdf";
    let page = format!(
        "%PDF-1.7 {}
",
        tenant.id
    );
    let bytes = Bytes::from(page.repeat(FILE_BYTES / page.len() + 1)).slice(..FILE_BYTES);
    let request = |digest| UploadRequest {
        collection: tenant.collection.clone(),
        filename: Some(name.to_owned()),
        media_type: "application/pdf".to_owned(),
        digest,
        size: Some(FILE_BYTES as u64),
        details: ItemDetails::default(),
        idempotency_key: None,
    };
    let scope = tenant.scope()?;
    let UploadStart::Ready(mut upload) = world.engine.upload(&scope, request(None)).await? else {
        bail!("the file was known before it was sent");
    };
    for begin in (0..FILE_BYTES).step_by(CHUNK_BYTES) {
        upload
            .write(bytes.slice(begin..(begin + CHUNK_BYTES).min(FILE_BYTES)))
            .await?;
    }
    let item = upload.finish().await?;
    items.push(Named {
        name: name.to_owned(),
        id: item.id,
        tenant: tenant.clone(),
    });
    counts[0] += 1;
    let what = format!("{name}, {} kB", FILE_BYTES / 1000);
    teller.came_in(tenant, &what, "streamed, hashed on the way, 1 taken")?;

    let known = world
        .engine
        .upload(&scope, request(Some(Digest::of(&bytes))))
        .await?;
    if !matches!(known, UploadStart::Duplicate(same) if same.id == item.id) {
        bail!("the same bytes were not recognised");
    }
    counts[1] += 1;
    teller.came_in(
        tenant,
        "the same bytes again",
        "duplicate by its digest: no byte sent, no place used",
    )
}

fn note(
    items: &mut Vec<Named>,
    counts: &mut [usize; 3],
    tenant: &Tenant,
    names: &[String],
    results: &[Refused<SubmittedItem>],
) {
    for (name, result) in names.iter().zip(results) {
        match result {
            Ok(item) if item.duplicate => counts[1] += 1,
            Ok(item) => {
                counts[0] += 1;
                items.push(Named {
                    name: name.clone(),
                    id: item.id,
                    tenant: tenant.clone(),
                });
            }
            Err(_) => counts[2] += 1,
        }
    }
}

fn refusals(answer: &SubmitAnswer) -> impl Iterator<Item = &Refusal> {
    answer.results.iter().filter_map(|result| result.as_ref().err())
}

fn summary(answer: &SubmitAnswer) -> String {
    let taken = answer.results.iter().filter(|result| result.is_ok()).count();
    match answer.results.len() - taken {
        0 => format!("{taken} taken"),
        refused => format!("{taken} taken, {refused} refused:"),
    }
}
