//! Pauses.

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, LaneKey, PauseId, PipelineKey};
use docket_core::notify::ChannelKind;

use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::Row;

/// In the column of pipelines this stands for all of them.
const EVERYTHING: PipelineKey = PipelineKey(0);

crate::statements! {
    INSERT = portable "pause_insert" "
insert into pause (id, scope, pipeline_key, lane_key, reason, actor, at_ms, collection_key, channel)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    DELETE = portable "pause_delete" "
delete from pause where id = $1 returning id, pipeline_key, lane_key, reason, actor, at_ms, collection_key, channel";
    LIST = portable "pause_list" "
select id, pipeline_key, lane_key, reason, actor, at_ms, collection_key, channel from pause order by at_ms, id limit 1000";
    THAT_HOLD = portable "pause_that_hold" "
select id, pipeline_key, lane_key, reason, actor, at_ms, collection_key, channel from pause
where pipeline_key in (0, $1) or lane_key = $2 order by at_ms, id limit 1000";
    OF_CHANNELS = portable "pause_of_channels" "
select id, pipeline_key, lane_key, reason, actor, at_ms, collection_key, channel from pause
where pipeline_key = 0 or channel is not null order by at_ms, id limit 1000";
    OF_LANE = portable "pause_of_lane" "select count(*) from pause where lane_key = $1";
}

/// What a pause stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub enum PauseScope {
    All,
    Pipeline(PipelineKey),
    Lane(LaneKey),
    Collection(CollectionKey),
    Channel(ChannelKind),
}

impl PauseScope {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Pipeline(_) => "pipeline",
            Self::Lane(_) => "lane",
            Self::Collection(_) => "collection",
            Self::Channel(_) => "channel",
        }
    }
}

/// A pause.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Pause {
    pub id: PauseId,
    pub scope: PauseScope,
    pub reason: String,
    pub actor: String,
    pub at: Timestamp,
}

fn read(mut row: Row) -> Result<Pause> {
    let channel = row.opt_text(7)?;
    let channel = channel.and_then(|word| ChannelKind::ALL.into_iter().find(|kind| kind.as_str() == word));
    let scope = match (row.opt_pipeline(1)?, row.opt_lane(2)?, row.opt_collection(6)?) {
        (Some(EVERYTHING), _, _) => PauseScope::All,
        (Some(pipeline), _, _) => PauseScope::Pipeline(pipeline),
        (None, Some(lane), _) => PauseScope::Lane(lane),
        (None, None, Some(collection)) => PauseScope::Collection(collection),
        (None, None, None) => PauseScope::Channel(channel.ok_or_else(|| row.inconsistent(7))?),
    };
    Ok(Pause {
        id: PauseId::from_uuid(row.uuid(0)?),
        scope,
        reason: row.text(3)?,
        actor: row.text(4)?,
        at: row.time(5)?,
    })
}

/// Writes a pause.
pub async fn insert(tx: &mut Tx, pause: &Pause) -> Result<()> {
    let (pipeline, lane, collection, channel) = match pause.scope {
        PauseScope::All => (Some(EVERYTHING), None, None, None),
        PauseScope::Pipeline(pipeline) => (Some(pipeline), None, None, None),
        PauseScope::Lane(lane) => (None, Some(lane), None, None),
        PauseScope::Collection(collection) => (None, None, Some(collection), None),
        PauseScope::Channel(channel) => (None, None, None, Some(channel.as_str())),
    };
    let scope = pause.scope.as_str();
    tx.execute_one(
        &INSERT,
        params![
            pause.id,
            scope,
            pipeline,
            lane,
            &pause.reason,
            &pause.actor,
            pause.at,
            collection,
            channel
        ],
    )
    .await
}

/// Deletes a pause and says what it was.
pub async fn delete(tx: &mut Tx, id: PauseId) -> Result<Option<Pause>> {
    tx.row_opt(&DELETE, params![id]).await?.map(read).transpose()
}

/// The pauses there are, oldest first.
pub async fn list(tx: &mut Tx) -> Result<Vec<Pause>> {
    tx.rows(&LIST, &[]).await?.into_iter().map(read).collect()
}

/// The pauses that hold this lane of this pipeline.
pub async fn that_hold(tx: &mut Tx, pipeline: PipelineKey, lane: LaneKey) -> Result<Vec<Pause>> {
    tx.rows(&THAT_HOLD, params![pipeline, lane])
        .await?
        .into_iter()
        .map(read)
        .collect()
}

/// The pauses that keep channels from sending.
pub async fn of_channels(tx: &mut Tx) -> Result<Vec<Pause>> {
    tx.rows(&OF_CHANNELS, &[]).await?.into_iter().map(read).collect()
}

/// How many pauses a lane has of its own.
pub async fn count_of_lane(tx: &mut Tx, lane: LaneKey) -> Result<u64> {
    tx.row(&OF_LANE, params![lane]).await?.count(0)
}
