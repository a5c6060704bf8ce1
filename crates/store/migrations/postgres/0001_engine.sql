-- The engine: tenants, pipelines, lanes, items, jobs, the log and the counters.
-- Times are milliseconds since the epoch, JSON is text, and no statement asks the database for the time.

create table tier (
  name             text   primary key,
  uploads_per_hour bigint,                                   -- null: no limit
  concurrent_jobs  bigint not null
);

create table tenant (
  id               text   primary key,
  tier             text   not null references tier (name),
  uploads_per_hour bigint,                                   -- null: the tier's; -1: no limit
  concurrent_jobs  bigint,                                   -- null: the tier's
  intake_next      bigint not null default 0,                -- the number of the next limited submission
  created_at_ms    bigint not null,
  updated_at_ms    bigint not null
);

-- The rolling window of rule I2: for each moment of intake the number of its first submission.
create table intake_slot (
  tenant_id text   not null,
  at_ms     bigint not null,
  first     bigint not null,
  primary key (tenant_id, at_ms)
);

-- Files on their way in, and bytes that nobody needs any more: the sweeper deletes the bytes first, then the row.
create table upload (
  id            uuid     primary key,
  tenant_id     text     not null,
  blob_key      text     not null,
  reserved      boolean  not null,                           -- whether it has reserved a place in the window
  discarded     boolean  not null default false,
  expires_at_ms bigint   not null
);
create index upload_tenant on upload (tenant_id) where reserved;
create index upload_due on upload (expires_at_ms);

create table pipeline (
  pipeline_key integer primary key,
  name         text   not null unique,
  version      bigint not null,
  lease_ms     bigint not null,                              -- of the present version, for the claim
  to_review    boolean not null
);

create table pipeline_version (
  pipeline_key  integer not null,
  version       bigint not null,
  definition    text   not null,
  created_at_ms bigint not null,
  primary key (pipeline_key, version)
);

create table lane_of (
  tenant_id    text   not null,
  pipeline_key integer not null,
  lane_key     integer not null unique,
  primary key (tenant_id, pipeline_key)
);

-- One narrow row a lane; it is written with every claim and every completion, so it has no index but these two, and the
-- rule for "ready" stands here and nowhere else.
create sequence lane_turn;
create table lane (
  lane_key     integer primary key,
  pipeline_key integer not null,
  lim          bigint  not null,
  active       bigint  not null default 0,
  queued       bigint  not null default 0,
  waiting      bigint  not null default 0,
  next_seq     bigint  not null default 1,
  head_seq     bigint  not null default 1,
  served       bigint  not null,                             -- the turn at which it was last served
  paused       boolean not null default false,
  strict       boolean not null default false,
  ready_key    bigint  generated always as (
    case when queued > 0 and active < lim and not paused and not (strict and waiting > 0) then served end) stored,
  check (active >= 0 and queued >= 0 and waiting >= 0)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
create index lane_ready on lane (pipeline_key, ready_key) where ready_key is not null;

create table collection (
  collection_key integer primary key,
  id             text    not null unique,
  tenant_id      text    not null references tenant (id),
  pipeline_key   integer,
  lane_key       integer,
  to_review      boolean not null,
  settings       text    not null,
  created_at_ms  bigint  not null,
  updated_at_ms  bigint  not null
);
create index collection_tenant on collection (tenant_id, id);

-- An item is written when it is submitted and not again by processing: what holds it tells its status.
create table item (
  collection_key  integer not null,
  id              uuid    not null,
  version         integer not null default 1,
  external_id     text,
  content_hash    bytea   not null,
  content_key     bytea,                                     -- the digest, where the content identifies the item
  is_file         boolean not null,
  filename        text,
  media_type      text,
  size            bigint  not null,
  blob_key        text,
  payload         text,
  metadata        text,
  fields          text,
  display_payload text,
  confidence      double precision,
  line_item_count bigint,
  total_amount    double precision,
  deadline_ms     bigint,
  to_review       boolean not null,                          -- for an item without a job
  submitted_by    text    not null,
  lane_key        integer,
  job_seq         bigint,                                    -- the latest job
  created_at_ms   bigint  not null,
  updated_at_ms   bigint  not null,
  primary key (collection_key, id)
);
create unique index item_external on item (collection_key, external_id) where external_id is not null;
create unique index item_content on item (collection_key, content_key) where content_key is not null;

-- What an item was before its present version.
create table item_version (
  collection_key integer not null,
  item_id        uuid    not null,
  version        integer not null,
  content_hash   bytea   not null,
  is_file        boolean not null,
  filename       text,
  media_type     text,
  size           bigint  not null,
  blob_key       text,
  payload        text,
  metadata       text,
  superseded_at_ms bigint not null,
  primary key (collection_key, item_id, version)
);

-- Values that people set. Machines never write here.
create table correction (
  collection_key  integer not null,
  item_id         uuid    not null,
  name            text    not null,
  value           text    not null,
  locked          boolean not null,
  corrected_by    text    not null,
  corrected_at_ms bigint  not null,
  primary key (collection_key, item_id, name)
);

-- No index but the key, so that the update at the end of a job stays within its page.
create table job (
  lane_key         integer  not null,
  seq              bigint   not null,
  collection_key   integer  not null,
  item_id          uuid     not null,
  item_version     integer  not null,
  state            smallint not null default 0,
  cause            smallint not null default 0,              -- submitted, retried, reprocessed, next version
  prior_lane_key   integer,
  prior_seq        bigint,
  token            bigint   not null default 0,
  retry_count      integer  not null default 0,
  pipeline_version integer,
  to_review        boolean  not null default false,
  worker           text,
  error            text,
  failed_step      text,
  result           text,
  fields           text,
  display_payload  text,
  line_item_count  bigint,
  total_amount     double precision,
  created_at_ms    bigint   not null,
  started_at_ms    bigint,
  finished_at_ms   bigint,
  primary key (lane_key, seq)
) with (fillfactor = 80);

create table job_step (
  lane_key        integer not null,
  seq             bigint  not null,
  name            text    not null,
  output          text    not null,
  completed_at_ms bigint  not null,
  primary key (lane_key, seq, name)
);

-- Jobs that have left the tail: leased (1), delayed (2), put back to the front (3).
create table hold (
  lane_key         integer  not null,
  seq              bigint   not null,
  kind             smallint not null,
  token            bigint   not null,
  retry_count      integer  not null,
  worker           text,
  until_ms         bigint   not null,
  lease_ms         bigint   not null,
  started_at_ms    bigint   not null,
  pipeline_version integer  not null,
  to_review        boolean  not null,
  primary key (lane_key, seq)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
create index hold_front on hold (lane_key, seq) where kind = 3;
create index hold_due on hold (until_ms) where kind < 3;

-- Numbers of the tail that no job has any more.
create table hole (
  lane_key integer not null,
  seq      bigint  not null,
  primary key (lane_key, seq)
);

create table pause (
  id           uuid   primary key,
  scope        text   not null,
  pipeline_key integer,                                      -- 0: everything
  lane_key     integer,
  reason       text   not null,
  actor        text   not null,
  at_ms        bigint not null
);
create index pause_pipeline on pause (pipeline_key);

create table worker (
  pipeline_key integer not null,
  worker_id    text   not null,
  seen_at_ms   bigint not null,
  primary key (pipeline_key, worker_id)
);

create table idempotency (
  tenant_id     text   not null,
  key           text   not null,
  request_hash  bytea  not null,
  response      text   not null,
  created_at_ms bigint not null,
  primary key (tenant_id, key)
);
create index idempotency_age on idempotency (created_at_ms);

-- Ordered by the transaction first: a reader that stops below the oldest open transaction misses nothing.
create table log (
  tx        bigint not null default (pg_current_xact_id()::text::bigint),
  id        bigint not null generated always as identity,
  at_ms     bigint not null,
  tenant_id text,
  item_id   uuid,
  lane_key  integer,
  seq       bigint,
  action    text   not null,
  actor     text   not null,
  field     text,
  old       text,
  new       text,
  details   text,
  primary key (tx, id)
);
create index log_item on log (item_id, tx, id) where item_id is not null;

create function log_refuses_change() returns trigger language plpgsql as $$
begin
  raise exception 'the log is append-only: entries are never changed or deleted';
end $$;
create trigger log_append_only before update or delete on log
  for each row execute function log_refuses_change();
create trigger log_no_truncate before truncate on log
  for each statement execute function log_refuses_change();

-- Counts by collection and status: folded, and the changes that wait to be folded in.
create table counter (
  collection_key integer not null,
  status         text   not null,
  value          bigint not null,
  primary key (collection_key, status)
);
create table delta (
  collection_key integer not null,
  from_status    text,
  to_status      text,
  n              bigint  not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
