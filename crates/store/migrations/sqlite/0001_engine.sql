-- The engine: tenants, pipelines, lanes, items, jobs, the log and the counters.
-- Times are milliseconds since the epoch, JSON is text, and no statement asks the database for the time.

create table tier (
  name             text   primary key,
  uploads_per_hour integer,                                   -- null: no limit
  concurrent_jobs  integer not null
) strict;

create table tenant (
  id               text   primary key,
  tier             text   not null references tier (name),
  uploads_per_hour integer,                                   -- null: the tier's; -1: no limit
  concurrent_jobs  integer,                                   -- null: the tier's
  intake_next      integer not null default 0,                -- the number of the next limited submission
  created_at_ms    integer not null,
  updated_at_ms    integer not null
) strict;

-- The rolling window of rule I2: for each moment of intake the number of its first submission.
create table intake_slot (
  tenant_id text   not null,
  at_ms     integer not null,
  first     integer not null,
  primary key (tenant_id, at_ms)
) strict, without rowid;

-- Files on their way in, and bytes that nobody needs any more: the sweeper deletes the bytes first, then the row.
create table upload (
  id            blob     primary key,
  tenant_id     text     not null,
  blob_key      text     not null,
  reserved      integer  not null,                           -- whether it has reserved a place in the window
  discarded     integer  not null default 0,
  expires_at_ms integer   not null
) strict;
create index upload_tenant on upload (tenant_id) where reserved;
create index upload_due on upload (expires_at_ms);

create table pipeline (
  pipeline_key integer primary key,
  name         text   not null unique,
  version      integer not null,
  lease_ms     integer not null,                              -- of the present version, for the claim
  to_review    integer not null
) strict;

create table pipeline_version (
  pipeline_key  integer not null,
  version       integer not null,
  definition    text   not null,
  created_at_ms integer not null,
  primary key (pipeline_key, version)
) strict, without rowid;

create table lane_of (
  tenant_id    text   not null,
  pipeline_key integer not null,
  lane_key     integer not null unique,
  primary key (tenant_id, pipeline_key)
) strict, without rowid;

-- One narrow row a lane; it is written with every claim and every completion, so it has no index but these two, and the
-- rule for "ready" stands here and nowhere else.
create table lane_turn (
  id    integer primary key check (id = 1),
  value integer not null
) strict;
insert into lane_turn (id, value) values (1, 0);
create table lane (
  lane_key     integer  primary key,
  pipeline_key integer  not null,
  lim          integer  not null,
  active       integer  not null default 0,
  queued       integer  not null default 0,
  waiting      integer  not null default 0,
  next_seq     integer  not null default 1,
  head_seq     integer  not null default 1,
  served       integer  not null,                             -- the turn at which it was last served
  paused       integer not null default 0,
  strict       integer not null default 0,
  ready_key    integer  generated always as (
    case when queued > 0 and active < lim and not paused and not (strict and waiting > 0) then served end) stored,
  check (active >= 0 and queued >= 0 and waiting >= 0)
) strict;
create index lane_ready on lane (pipeline_key, ready_key) where ready_key is not null;

create table collection (
  collection_key integer  primary key,
  id             text    not null unique,
  tenant_id      text    not null references tenant (id),
  pipeline_key   integer,
  lane_key       integer,
  to_review      integer not null,
  settings       text    not null,
  created_at_ms  integer  not null,
  updated_at_ms  integer  not null
) strict;
create index collection_tenant on collection (tenant_id, id);

-- An item is written when it is submitted and not again by processing: what holds it tells its status.
create table item (
  collection_key  integer not null,
  id              blob    not null,
  version         integer not null default 1,
  external_id     text,
  content_hash    blob   not null,
  content_key     blob,                                     -- the digest, where the content identifies the item
  is_file         integer not null,
  filename        text,
  media_type      text,
  size            integer  not null,
  blob_key        text,
  payload         text,
  metadata        text,
  fields          text,
  display_payload text,
  confidence      real,
  line_item_count integer,
  total_amount    real,
  deadline_ms     integer,
  to_review       integer not null,                          -- for an item without a job
  submitted_by    text    not null,
  lane_key        integer,
  job_seq         integer,                                    -- the latest job
  created_at_ms   integer  not null,
  updated_at_ms   integer  not null,
  primary key (collection_key, id)
) strict;
create unique index item_external on item (collection_key, external_id) where external_id is not null;
create unique index item_content on item (collection_key, content_key) where content_key is not null;

-- What an item was before its present version.
create table item_version (
  collection_key integer not null,
  item_id        blob    not null,
  version        integer not null,
  content_hash   blob   not null,
  is_file        integer not null,
  filename       text,
  media_type     text,
  size           integer  not null,
  blob_key       text,
  payload        text,
  metadata       text,
  superseded_at_ms integer not null,
  primary key (collection_key, item_id, version)
) strict;

-- Values that people set. Machines never write here.
create table correction (
  collection_key  integer not null,
  item_id         blob    not null,
  name            text    not null,
  value           text    not null,
  locked          integer not null,
  corrected_by    text    not null,
  corrected_at_ms integer  not null,
  primary key (collection_key, item_id, name)
) strict, without rowid;

-- Rows lie in the order in which they were made, whatever their lane: jobs that end together then share pages of the WAL.
create table job (
  lane_key         integer  not null,
  seq              integer   not null,
  collection_key   integer  not null,
  item_id          blob     not null,
  item_version     integer  not null,
  state            integer not null default 0,
  cause            integer not null default 0,              -- submitted, retried, reprocessed, next version
  prior_lane_key   integer,
  prior_seq        integer,
  token            integer   not null default 0,
  retry_count      integer  not null default 0,
  pipeline_version integer,
  to_review        integer  not null default 0,
  worker           text,
  error            text,
  failed_step      text,
  result           text,
  fields           text,
  display_payload  text,
  line_item_count  integer,
  total_amount     real,
  created_at_ms    integer   not null,
  started_at_ms    integer,
  finished_at_ms   integer,
  primary key (lane_key, seq)
) strict;

create table job_step (
  lane_key        integer not null,
  seq             integer  not null,
  name            text    not null,
  output          text    not null,
  completed_at_ms integer  not null,
  primary key (lane_key, seq, name)
) strict, without rowid;

-- Jobs that have left the tail: leased (1), delayed (2), put back to the front (3).
create table hold (
  lane_key         integer  not null,
  seq              integer   not null,
  kind             integer not null,
  token            integer   not null,
  retry_count      integer  not null,
  worker           text,
  until_ms         integer   not null,
  lease_ms         integer   not null,
  started_at_ms    integer   not null,
  pipeline_version integer  not null,
  to_review        integer  not null,
  primary key (lane_key, seq)
) strict, without rowid;
create index hold_front on hold (lane_key, seq) where kind = 3;
create index hold_due on hold (until_ms) where kind < 3;

-- Numbers of the tail that no job has any more.
create table hole (
  lane_key integer not null,
  seq      integer  not null,
  primary key (lane_key, seq)
) strict, without rowid;

create table pause (
  id           blob   primary key,
  scope        text   not null,
  pipeline_key integer,                                      -- 0: everything
  lane_key     integer,
  reason       text   not null,
  actor        text   not null,
  at_ms        integer not null
) strict;
create index pause_pipeline on pause (pipeline_key);

create table worker (
  pipeline_key integer not null,
  worker_id    text   not null,
  seen_at_ms   integer not null,
  primary key (pipeline_key, worker_id)
) strict, without rowid;

create table idempotency (
  tenant_id     text   not null,
  key           text   not null,
  request_hash  blob  not null,
  response      text   not null,
  created_at_ms integer not null,
  primary key (tenant_id, key)
) strict, without rowid;
create index idempotency_age on idempotency (created_at_ms);

-- With one writer the order of ids is the order of commits; `tx` is PostgreSQL's.
create table log (
  tx        integer not null default 0,
  id        integer primary key,
  at_ms     integer not null,
  tenant_id text,
  item_id   blob,
  lane_key  integer,
  seq       integer,
  action    text   not null,
  actor     text   not null,
  field     text,
  old       text,
  new       text,
  details   text
) strict;
create index log_item on log (item_id, id) where item_id is not null;

create trigger log_no_update before update on log
begin select raise(abort, 'the log is append-only: entries are never changed or deleted'); end;
create trigger log_no_delete before delete on log
begin select raise(abort, 'the log is append-only: entries are never changed or deleted'); end;
-- "insert or replace" deletes without asking the trigger above; here it is asked. An entry that gets its number by itself has none yet.
create trigger log_no_replace before insert on log when new.id > 0 and exists (select 1 from log where id = new.id)
begin select raise(abort, 'the log is append-only: entries are never changed or deleted'); end;

-- Counts by collection and status: folded, and the changes that wait to be folded in.
create table counter (
  collection_key integer not null,
  status         text   not null,
  value          integer not null,
  primary key (collection_key, status)
) strict, without rowid;
create table delta (
  collection_key integer not null,
  from_status    text,
  to_status      text,
  n              integer  not null
) strict;
