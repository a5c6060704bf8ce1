//! Pipelines.

use std::sync::Arc;

use docket_core::id::{PipelineKey, draw_key};
use docket_core::log::Action;
use docket_core::name::PipelineName;
use docket_core::pipeline::Pipeline;
use docket_core::random::Random;
use docket_core::scope::Operator;
use docket_core::{Refusal, Timestamp};
use docket_store::table::log::NewEntry;
use docket_store::table::{lane, log, pipeline, tenant};
use docket_store::{Result, Tx};
use serde_json::json;

use crate::engine::Engine;

struct PipelinePut {
    who: Operator,
    name: PipelineName,
    definition: Pipeline,
    random: Arc<dyn Random>,
    now: Timestamp,
}

impl Engine {
    /// Makes a pipeline, or gives it a new version: attempts under way end by the version they began with, the next ones follow
    /// the new one. Returns the version's number; saying the same again makes no new one.
    pub async fn pipeline_put(
        &self,
        who: &Operator,
        name: PipelineName,
        definition: Pipeline,
    ) -> Result<i64> {
        definition.check()?;
        let params = PipelinePut {
            who: who.clone(),
            name: name.clone(),
            definition,
            random: Arc::clone(&self.kernel.random),
            now: self.kernel.clock.now(),
        };
        let (key, version) = self
            .kernel
            .store
            .run("pipeline_put", params, |tx, p| Box::pin(pipeline_put(tx, p)))
            .await?;
        // A pipeline that is no longer strict may have lanes that can start something.
        self.kernel.hint([key]);
        Ok(version)
    }

    /// The present definition of a pipeline.
    pub async fn pipeline(&self, name: &PipelineName) -> Result<Pipeline> {
        let key = self.pipeline_key(name).await?;
        let definitions = Arc::clone(&self.kernel.definitions);
        let params = (key, definitions);
        let found = self
            .kernel
            .store
            .read("pipeline", params, |tx, (key, definitions)| {
                Box::pin(async move {
                    let (_, version) = pipeline::name(tx, *key).await?;
                    definitions.get(tx, *key, version).await
                })
            });
        Ok(found.await?.as_ref().clone())
    }

    /// The key of a pipeline, which never changes.
    pub(crate) async fn pipeline_key(&self, name: &PipelineName) -> Result<PipelineKey> {
        if let Some(key) = self.kernel.definitions.key(name.as_str()) {
            return Ok(key);
        }
        let params = name.as_str().to_owned();
        let found = self
            .kernel
            .store
            .read("pipeline_key", params, |tx, name| {
                Box::pin(pipeline::key(tx, name))
            })
            .await?;
        let key = found.ok_or_else(|| Refusal::not_found("pipeline", name))?;
        self.kernel.definitions.remember(name.as_str(), key);
        Ok(key)
    }
}

async fn pipeline_put(tx: &mut Tx, p: &PipelinePut) -> Result<(PipelineKey, i64)> {
    let name = p.name.as_str();
    tenant::lock_set_up(tx).await?;
    let (key, version, before) = match pipeline::lock(tx, name).await? {
        None => {
            let key = PipelineKey(i64::from(draw_key(p.random.as_ref())));
            pipeline::insert(tx, key, name, &p.definition, p.now).await?;
            (key, 1, None)
        }
        Some((key, version)) => {
            let before = pipeline::version(tx, key, version).await?;
            if before == p.definition {
                return Ok((key, version));
            }
            pipeline::update(tx, key, version + 1, &p.definition, p.now).await?;
            lane::set_strict(tx, key, p.definition.strict).await?;
            (key, version + 1, Some(json!(before)))
        }
    };
    let entry = NewEntry::new(Action::PipelinePut, p.who.actor.as_str())
        .changing(before.as_ref(), &json!(p.definition))
        .with(&json!({ "pipeline": name, "version": version }));
    log::append(tx, &entry, p.now).await?;
    Ok((key, version))
}
