-- Reviews: what people decide on, in which order, and in whose hands it is.

create table reviewer (
  id            text    primary key,
  name          text    not null,
  tenant_id     text,                                        -- null: reviews for any tenant
  available     integer not null,
  capacity      integer,                                     -- null: any number in hand
  turn          integer not null default 0,                  -- rises with every assignment among those who share work
  created_at_ms integer not null,
  updated_at_ms integer not null
) strict;

-- One review for each version of an item. Pending ones are ordered by three indexes; those in hand have three more, which stay
-- as small as what people hold.
create table review (
  collection_key  integer not null,
  id              blob    not null,
  item_id         blob    not null,
  item_version    integer not null,
  state           integer not null default 0,                -- pending, in review, approved, corrected, rejected, failed, cancelled
  entered         integer primary key,
  order_key       integer not null,                          -- the smaller, the more urgent; see core::priority
  deadline_ms     integer not null,
  deadline_given  integer not null,                          -- it came with the item: another SLA does not move it
  policy          integer not null,                          -- the review policy by which the key was computed
  confidence      real,
  line_item_count integer,
  total_amount    real,
  facts           text,                                      -- the machine's fields as they were to be reviewed: names and confidences
  token           integer not null default 0,
  retry_count     integer not null default 0,
  assigned_to     text,                                      -- who holds it, or held it last
  assigned_at_ms  integer,
  opened_at_ms    integer,                                   -- null while it was assigned and not yet looked at
  until_ms        integer,
  lease_ms        integer,
  decided_by      text,
  decided_at_ms   integer,
  active_ms       integer,                                   -- from the opening to the decision
  decision        text,                                      -- its reason and corrections, with what was before
  created_at_ms   integer not null
) strict;
create unique index review_key on review (collection_key, id);
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
  review_id      blob    not null,
  reviewer       text    not null,
  primary key (collection_key, review_id, reviewer)
) strict;

-- Reviews whose keys still follow an earlier policy of their collection.
create table review_rekey (
  collection_key integer primary key,
  policy         integer not null,
  after_id       blob,                                       -- how far it has come
  passes_left    integer not null,
  due_at_ms      integer not null,
  rekeyed        integer not null
) strict;

alter table collection add column review_policy integer not null default 1;

alter table pause add column collection_key integer;
create index pause_collection on pause (collection_key);
