//! Recounts: what the rows say, beside what the counts say. Each query gives only what differs, one snapshot for all.

use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    LANE_ROWS = portable "doctor_lane_rows" "
select coalesce(o.lane_key, l.lane_key) as lane_key, coalesce(l.n, 0) from lane_of o
full join (select lane_key, count(*) as n from lane group by lane_key) l on l.lane_key = o.lane_key
where o.lane_key is null or l.n is null or l.n <> 1 order by 1 limit $1";
    LANES = portable "doctor_lanes" "
select l.lane_key, l.active, l.queued, l.waiting, coalesce(h.leased, 0), coalesce(h.front, 0) + coalesce(j.tail, 0),
       coalesce(h.delayed, 0)
from lane l
left join (select lane_key, sum(case when kind = 1 then 1 else 0 end) as leased,
                  sum(case when kind = 2 then 1 else 0 end) as delayed, sum(case when kind = 3 then 1 else 0 end) as front
           from hold group by lane_key) h on h.lane_key = l.lane_key
left join (select j.lane_key, count(*) as tail from job j join lane m on m.lane_key = j.lane_key
           where j.state = 0 and j.seq >= m.head_seq group by j.lane_key) j on j.lane_key = l.lane_key
where l.active <> coalesce(h.leased, 0) or l.queued <> coalesce(h.front, 0) + coalesce(j.tail, 0)
   or l.waiting <> coalesce(h.delayed, 0)
order by l.lane_key limit $1";
    HOLDS = portable "doctor_holds" "
select h.lane_key, h.seq from hold h left join job j on j.lane_key = h.lane_key and j.seq = h.seq
join lane l on l.lane_key = h.lane_key
where j.state is null or j.state <> 0 or h.seq >= l.head_seq order by h.lane_key, h.seq limit $1";
    LOST = portable "doctor_lost" "
select j.lane_key, j.seq from job j join lane l on l.lane_key = j.lane_key
left join hold h on h.lane_key = j.lane_key and h.seq = j.seq
where j.state = 0 and j.seq < l.head_seq and h.seq is null order by j.lane_key, j.seq limit $1";
    TAIL = portable "doctor_tail" "
select l.lane_key, l.next_seq - l.head_seq,
       (select count(*) from job j where j.lane_key = l.lane_key and j.seq >= l.head_seq and j.state = 0),
       (select count(*) from hole o where o.lane_key = l.lane_key and o.seq >= l.head_seq)
from lane l
where l.next_seq - l.head_seq <>
      (select count(*) from job j where j.lane_key = l.lane_key and j.seq >= l.head_seq and j.state = 0)
      + (select count(*) from hole o where o.lane_key = l.lane_key and o.seq >= l.head_seq)
order by l.lane_key limit $1";
    LANE_NAME = portable "doctor_lane_name" "
select o.tenant_id, p.name from lane_of o join pipeline p on p.pipeline_key = o.pipeline_key where o.lane_key = $1";
    COLLECTION_NAME = portable "doctor_collection_name" "select id from collection where collection_key = $1";
    STRICT = split "doctor_strict"
        "select l.lane_key from lane l join pipeline p on p.pipeline_key = l.pipeline_key
         join pipeline_version v on v.pipeline_key = p.pipeline_key and v.version = p.version
         where l.strict <> coalesce((v.definition::jsonb ->> 'strict')::boolean, false) order by l.lane_key limit $1"
        "select l.lane_key from lane l join pipeline p on p.pipeline_key = l.pipeline_key
         join pipeline_version v on v.pipeline_key = p.pipeline_key and v.version = p.version
         where l.strict <> coalesce(v.definition ->> 'strict', 0) order by l.lane_key limit $1";
    MOMENTS = portable "doctor_moments" "
select tenant_id, first, before from (
  select tenant_id, at_ms, first, lag(first) over (partition by tenant_id order by at_ms) as before from intake_slot) x
where before >= first order by tenant_id, at_ms limit $1";
    USED = split "doctor_used"
        "select t.id, t.intake_next - o.first, count(l.id)
         from (select distinct on (tenant_id) tenant_id, at_ms, first from intake_slot order by tenant_id, at_ms) o
         join tenant t on t.id = o.tenant_id
         left join log l on l.tenant_id = t.id and l.action in ('item.submitted', 'item.versioned') and l.at_ms >= o.at_ms - $2
           and l.tx >= coalesce((select max(last_tx) from seal where until_ms < (select min(at_ms) - $2 from intake_slot)), 0)
         group by t.id, t.intake_next, o.first, o.at_ms having t.intake_next - o.first > count(l.id) order by t.id limit $1"
        "with l as materialized (
           select tenant_id, at_ms from log where action in ('item.submitted', 'item.versioned')
             and id > coalesce((select max(last_id) from seal where until_ms < (select min(at_ms) - $2 from intake_slot)), 0))
         select t.id, t.intake_next - o.first, count(l.at_ms)
         from (select tenant_id, min(at_ms) as at_ms, first from intake_slot group by tenant_id) o
         join tenant t on t.id = o.tenant_id
         left join l on l.tenant_id = t.id and l.at_ms >= o.at_ms - $2
         group by t.id, t.intake_next, o.first, o.at_ms having t.intake_next - o.first > count(l.at_ms) order by t.id limit $1";
    LIMITS = portable "doctor_limits" "
select t.id, t.intake_next, s.first from tenant t join (
  select tenant_id, max(first) as first from intake_slot group by tenant_id) s on s.tenant_id = t.id
where s.first >= t.intake_next order by t.id limit $1";
    LANE_LIMITS = portable "doctor_lane_limits" "
select l.lane_key, l.lim, coalesce(t.concurrent_jobs, r.concurrent_jobs)
from lane l join lane_of o on o.lane_key = l.lane_key join tenant t on t.id = o.tenant_id join tier r on r.name = t.tier
where l.lim <> coalesce(t.concurrent_jobs, r.concurrent_jobs) order by l.lane_key limit $1";
    ITEMS = portable "doctor_items" "
select i.collection_key, case when j.state = 0 then 'queued' when j.state = 3 then 'failed' when j.state in (4, 5) then 'cancelled'
       when r.state = 2 then 'approved' when r.state = 3 then 'corrected' when r.state = 4 then 'rejected'
       when r.state in (0, 1, 5) then 'in_review'
       when not coalesce(j.to_review, i.to_review) then 'completed' when r.state = 6 then 'cancelled'
       else 'in_review' end as status, count(*)
from item i left join job j on j.lane_key = i.lane_key and j.seq = i.job_seq
left join review r on r.collection_key = i.collection_key and r.item_id = i.id and r.item_version = i.version group by 1, 2";
    REVIEWS = portable "doctor_reviews" "
select collection_key, case state when 0 then 'review:pending' when 1 then 'review:in_review' when 2 then 'review:approved'
       when 3 then 'review:corrected' when 4 then 'review:rejected' when 5 then 'review:failed' else 'review:cancelled' end
       as status, count(*)
from review group by 1, 2";
    UNREVIEWED = portable "doctor_unreviewed" "
select i.collection_key, i.id from item i left join job j on j.lane_key = i.lane_key and j.seq = i.job_seq
left join review r on r.collection_key = i.collection_key and r.item_id = i.id and r.item_version = i.version
where coalesce(j.state, 2) = 2 and coalesce(j.to_review, i.to_review) and r.id is null
order by i.collection_key, i.id limit $1";
    HELD_REVIEWS = portable "doctor_held_reviews" "
select r.collection_key, r.id from review r
where (r.state = 1) <> (r.until_ms is not null) or (r.state = 1 and r.assigned_to is null)
   or (r.state in (2, 3, 4)) <> (r.decided_at_ms is not null) or (r.state = 0 and r.assigned_to is not null)
order by r.collection_key, r.id limit $1";
    UNNOTED = split "doctor_unnoted"
        "select c.id from collection c
         where c.settings::jsonb -> 'review' ->> 'assignment' = 'auto'
           and exists (select 1 from review r where r.collection_key = c.collection_key and r.state = 0)
           and not exists (select 1 from review_unassigned u where u.collection_key = c.collection_key)
         order by c.id limit $1"
        "select c.id from collection c
         where c.settings -> 'review' ->> 'assignment' = 'auto'
           and exists (select 1 from review r where r.collection_key = c.collection_key and r.state = 0)
           and not exists (select 1 from review_unassigned u where u.collection_key = c.collection_key)
         order by c.id limit $1";
    COUNTERS = portable "doctor_counters" "
select collection_key, status, cast(sum(n) as bigint) from (
  select collection_key, status, value as n from counter
  union all select collection_key, to_status, n from delta where to_status is not null
  union all select collection_key, from_status, -n from delta where from_status is not null) x
group by collection_key, status";
    DELIVERIES = portable "doctor_deliveries" "
select d.id from delivery d left join notification n on n.id = d.notification_id
where n.id is null or n.owner <> d.owner
   or (d.state in (0, 1, 2, 6) and d.due_ms is null) or (d.state in (3, 4, 5, 7) and d.due_ms is not null)
   or (d.state = 4 and d.notified_at_ms is null) or (d.state in (0, 1, 2, 5) and d.notified_at_ms is not null)
   or (d.state = 5 and d.doubtful) or (d.state = 1 and d.intent_at_ms is null)
   or (d.told_before_ms is not null and d.nonce = '') or (d.state in (4, 5, 7)) <> (d.ended_at_ms is not null)
   or n.expired_as is not null
order by d.id limit $1";
    SUBJECTS = portable "doctor_subjects" "
select s.changelist_id, s.review_version, coalesce(n.review_version, 0) from notification_subject s left join (
  select owner, changelist_id, max(review_version) as review_version from notification group by owner, changelist_id) n
on n.owner = s.owner and n.changelist_id = s.changelist_id
where n.review_version is null or n.review_version <> s.review_version order by s.owner, s.changelist_id limit $1";
    PAUSED = portable "doctor_paused" "
select l.lane_key from lane l where l.paused <> exists (select 1 from pause p where p.lane_key = l.lane_key)
order by l.lane_key limit $1";
    STRAY_JOBS = portable "doctor_stray_jobs" "
select j.lane_key, j.seq from job j left join item i on i.collection_key = j.collection_key and i.id = j.item_id
where j.state = 0 and (i.id is null or i.lane_key <> j.lane_key or i.job_seq <> j.seq) order by j.lane_key, j.seq limit $1";
}

/// A clock that runs backwards by this much makes no false alarm: a day.
const CLOCK_MAY_ERR_MS: i64 = 86_400_000;

/// How many differences of a kind are reported.
const SHOWN: u64 = 20;

async fn pairs(tx: &mut Tx, statement: &'static crate::statement::Statement) -> Result<Vec<(i64, i64)>> {
    let rows = tx.rows(statement, params![SHOWN]).await?;
    rows.into_iter()
        .map(|mut row| Ok((row.int(0)?, row.int(1)?)))
        .collect()
}

/// What people call a lane: whose it is, and where it is served.
async fn lane_name(tx: &mut Tx, key: i64) -> Result<String> {
    match tx.row_opt(&LANE_NAME, params![key]).await? {
        Some(mut row) => Ok(format!("the lane of '{}' in '{}'", row.text(0)?, row.text(1)?)),
        None => Ok(format!("lane {key}, which is nobody's")),
    }
}

async fn collection_name(tx: &mut Tx, key: i64) -> Result<String> {
    match tx.row_opt(&COLLECTION_NAME, params![key]).await? {
        Some(mut row) => Ok(format!("collection '{}'", row.text(0)?)),
        None => Ok(format!("collection {key}, which does not exist")),
    }
}

/// Everything that differs, each as a sentence.
pub async fn differences(tx: &mut Tx) -> Result<Vec<String>> {
    let mut found = lanes(tx).await?;
    found.extend(jobs(tx).await?);
    found.extend(windows(tx).await?);
    found.extend(reviews(tx).await?);
    found.extend(outbox(tx).await?);
    found.extend(counters(tx).await?);
    Ok(found)
}

async fn lanes(tx: &mut Tx) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (lane, rows) in pairs(tx, &LANE_ROWS).await? {
        let lane = lane_name(tx, lane).await?;
        found.push(format!(
            "{lane}: every lane belongs to one tenant and has one row, but there are {rows} of it"
        ));
    }
    for mut row in tx.rows(&LANES, params![SHOWN]).await? {
        let n: Vec<i64> = (0..7).map(|column| row.int(column)).collect::<Result<_>>()?;
        let lane = lane_name(tx, n[0]).await?;
        found.push(format!(
            "{lane}: active {} queued {} waiting {}, but its rows are {} leased, {} ready and {} delayed",
            n[1], n[2], n[3], n[4], n[5], n[6]
        ));
    }
    for mut row in tx.rows(&TAIL, params![SHOWN]).await? {
        let n: Vec<i64> = (0..4).map(|column| row.int(column)).collect::<Result<_>>()?;
        let lane = lane_name(tx, n[0]).await?;
        found.push(format!(
            "{lane}: positions count {} numbers in its tail, but there are {} jobs and {} holes",
            n[1], n[2], n[3]
        ));
    }
    for mut row in tx.rows(&LANE_LIMITS, params![SHOWN]).await? {
        let (lane, has, should) = (row.int(0)?, row.int(1)?, row.int(2)?);
        let lane = lane_name(tx, lane).await?;
        found.push(format!(
            "{lane}: it may run {has} jobs at once, but its tenant may run {should}"
        ));
    }
    for (statement, what) in [
        (&PAUSED, "paused or not, its pauses say otherwise"),
        (&STRICT, "strict or not, its pipeline says otherwise"),
    ] {
        for mut row in tx.rows(statement, params![SHOWN]).await? {
            let lane = lane_name(tx, row.int(0)?).await?;
            found.push(format!("{lane}: {what}"));
        }
    }
    Ok(found)
}

async fn jobs(tx: &mut Tx) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (statement, what) in [
        (&HOLDS, "is held, but is not alive or still in the tail"),
        (&LOST, "has left the tail, but nothing holds it"),
        (&STRAY_JOBS, "is alive, but is not its item's latest"),
    ] {
        for (lane, seq) in pairs(tx, statement).await? {
            let lane = lane_name(tx, lane).await?;
            found.push(format!("job {seq} of {lane} {what}"));
        }
    }
    Ok(found)
}

/// The rolling windows of submissions (rule I2). Moments never run backwards within one, whatever the clock does; what is on record may
/// have been written by a clock that did, so more of that is counted.
async fn windows(tx: &mut Tx) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for mut row in tx.rows(&LIMITS, params![SHOWN]).await? {
        let (tenant, next, first) = (row.text(0)?, row.int(1)?, row.int(2)?);
        found.push(format!(
            "tenant '{tenant}': its next submission is number {next}, but {first} was given already"
        ));
    }
    for mut row in tx.rows(&MOMENTS, params![SHOWN]).await? {
        let (tenant, first, before) = (row.text(0)?, row.int(1)?, row.int(2)?);
        found.push(format!(
            "tenant '{tenant}': submission {before} is remembered from before submission {first}"
        ));
    }
    for mut row in tx.rows(&USED, params![SHOWN, CLOCK_MAY_ERR_MS]).await? {
        let (tenant, used, logged) = (row.text(0)?, row.int(1)?, row.int(2)?);
        found.push(format!(
            "tenant '{tenant}': {used} submissions count against its limit, but only {logged} are on record"
        ));
    }
    Ok(found)
}

async fn reviews(tx: &mut Tx) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for mut row in tx.rows(&UNREVIEWED, params![SHOWN]).await? {
        found.push(format!(
            "item {} is to be reviewed, but has no review",
            row.item(1)?
        ));
    }
    for mut row in tx.rows(&HELD_REVIEWS, params![SHOWN]).await? {
        found.push(format!(
            "review {}: its holder, lease and decision do not agree with its state",
            row.review(1)?
        ));
    }
    for mut row in tx.rows(&UNNOTED, params![SHOWN]).await? {
        found.push(format!(
            "collection '{}': reviews wait to be assigned, and nobody is going to look at them",
            row.text(0)?
        ));
    }
    Ok(found)
}

async fn outbox(tx: &mut Tx) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for mut row in tx.rows(&DELIVERIES, params![SHOWN]).await? {
        found.push(format!(
            "delivery {}: its marks, what is due of it and its notification do not agree with its state",
            row.uuid(0)?
        ));
    }
    for mut row in tx.rows(&SUBJECTS, params![SHOWN]).await? {
        let (subject, has, should) = (row.text(0)?, row.int(1)?, row.int(2)?);
        found.push(format!(
            "the highest version of '{subject}' is said to be {has}, but its notifications say {should}"
        ));
    }
    Ok(found)
}

async fn counters(tx: &mut Tx) -> Result<Vec<String>> {
    let mut counts = std::collections::BTreeMap::<(i64, String), (i64, i64)>::new();
    for mut row in tx.rows(&ITEMS, &[]).await? {
        counts.entry((row.int(0)?, row.text(1)?)).or_default().0 = row.int(2)?;
    }
    for mut row in tx.rows(&REVIEWS, &[]).await? {
        counts.entry((row.int(0)?, row.text(1)?)).or_default().0 = row.int(2)?;
    }
    for mut row in tx.rows(&COUNTERS, &[]).await? {
        counts.entry((row.int(0)?, row.text(1)?)).or_default().1 = row.int(2)?;
    }
    let differ = counts
        .into_iter()
        .filter(|(_, (rows, counted))| rows != counted)
        .take(SHOWN as usize);
    let mut found = Vec::new();
    for ((collection, status), (rows, counted)) in differ {
        let (what, status) = match status.strip_prefix("review:") {
            Some(state) => ("reviews", state),
            None => ("items", status.as_str()),
        };
        let collection = collection_name(tx, collection).await?;
        found.push(format!(
            "{collection}: {counted} {what} count as {status}, but there are {rows}"
        ));
    }
    Ok(found)
}
