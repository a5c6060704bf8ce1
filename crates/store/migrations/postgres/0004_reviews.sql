-- Reviews: what people decide on, in which order, and in whose hands it is.

create table reviewer (
  id            text    primary key,
  name          text    not null,
  tenant_id     text,                                        -- null: reviews for any tenant
  available     boolean not null,
  capacity      bigint,                                      -- null: any number in hand
  turn          bigint  not null default 0,                  -- rises with every assignment among those who share work
  created_at_ms bigint  not null,
  updated_at_ms bigint  not null
);

-- One review for each version of an item. Pending ones are ordered by three indexes; those in hand have three more, which stay
-- as small as what people hold.
create table review (
  collection_key  integer  not null,
  id              uuid     not null,
  item_id         uuid     not null,
  item_version    integer  not null,
  state           smallint not null default 0,               -- pending, in review, approved, corrected, rejected, failed, cancelled
  entered         bigint   not null generated always as identity,
  order_key       bigint   not null,                         -- the smaller, the more urgent; see core::priority
  deadline_ms     bigint   not null,
  deadline_given  boolean  not null,                         -- it came with the item: another SLA does not move it
  policy          bigint   not null,                         -- the review policy by which the key was computed
  confidence      double precision,
  line_item_count bigint,
  total_amount    double precision,
  facts           text,                                      -- the machine's fields as they were to be reviewed: names and confidences
  token           bigint   not null default 0,
  retry_count     integer  not null default 0,
  assigned_to     text,                                      -- who holds it, or held it last
  assigned_at_ms  bigint,
  opened_at_ms    bigint,                                    -- null while it was assigned and not yet looked at
  until_ms        bigint,
  lease_ms        bigint,
  decided_by      text,
  decided_at_ms   bigint,
  active_ms       bigint,                                    -- from the opening to the decision
  decision        text,                                      -- its reason and corrections, with what was before
  created_at_ms   bigint   not null,
  primary key (collection_key, id)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
create unique index review_item on review (collection_key, item_id, item_version);
create index review_fifo on review (collection_key, entered) where state = 0;
create index review_priority on review (collection_key, order_key, entered) where state = 0;
create index review_deadline on review (collection_key, deadline_ms, entered) where state = 0;
create index review_held on review (collection_key, until_ms, entered) where state = 1;
create index review_due on review (until_ms) where state = 1;
create index review_in_hand on review (assigned_to, collection_key) where state = 1;
create index review_decided on review (collection_key, decided_at_ms, entered) where state in (2, 3, 4);
create index review_failed on review (collection_key, entered) where state = 5;
create index review_cancelled on review (collection_key, entered) where state = 6;

-- Whom a review is not offered to again.
create table review_skip (
  collection_key integer not null,
  review_id      uuid    not null,
  reviewer       text    not null,
  primary key (collection_key, review_id, reviewer)
);

-- Reviews whose keys still follow an earlier policy of their collection.
create table review_rekey (
  collection_key integer primary key,
  policy         bigint  not null,
  after_id       uuid,                                       -- how far it has come
  passes_left    integer not null,
  due_at_ms      bigint  not null,
  rekeyed        bigint  not null
);

alter table collection add column review_policy bigint not null default 1;

alter table pause add column collection_key integer;
create index pause_collection on pause (collection_key);
