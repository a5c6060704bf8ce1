-- Notifications: whom to tell of what, and the outbox of the messages.

create table notification (
  id              blob    primary key,
  owner           text    not null,                          -- the tenant; empty: the deployment's own
  idempotency_key text    not null,
  request_hash    blob   not null,
  changelist_id   text    not null,
  review_version  integer  not null,
  item_id         blob,                                      -- the item whose review it follows from
  subject         text    not null,
  body            text    not null,
  actor           text    not null,
  created_at_ms   integer  not null
) strict;
create unique index notification_key on notification (owner, idempotency_key);
create unique index notification_version on notification (owner, changelist_id, review_version);
create index notification_owner on notification (owner, id);

-- The highest version of each subject; whoever makes a notification raises it first, and so they come one after the other.
create table notification_subject (
  owner           text    not null,
  changelist_id   text    not null,
  review_version  integer  not null,
  notification_id blob    not null,
  primary key (owner, changelist_id)
) strict;

-- The outbox: one row for each recipient of each version of a subject, ever. The rows of a notification have neighbouring ids.
create table delivery (
  id                 blob     primary key,
  key                text     not null,                      -- stands for owner, changelist, recipient and version: the token without a nonce
  notification_id    blob     not null,
  owner              text     not null,
  item_id            blob,
  recipient          text     not null,
  required           integer  not null,
  channel            text     not null,
  destination        text     not null,                      -- channel and host: what is limited together
  token              text     not null,
  nonce              text     not null default '',
  headers            text     not null,                      -- what is sent, frozen
  body               blob    not null,
  state              integer not null default 0,            -- pending, sending, unknown, held, sent, failed, reconciling, cancelled
  lease              integer   not null default 0,            -- rises with every hold
  due_ms             integer,                                 -- the next try, or the end of the hold; null: nothing happens by itself
  attempts           integer  not null default 0,
  failures           integer  not null default 0,
  began_at_ms        integer,
  first_intent_at_ms integer,
  intent_at_ms       integer,
  landed_by_ms       integer,                                 -- the last moment at which a send can have arrived
  doubtful           integer  not null default 0,        -- a send may have got through
  receipt            text,                                   -- the provider's id of the message
  notified_at_ms     integer,
  evidence_at_ms     integer,                                 -- when the provider's own answer said so
  problem            text,
  created_at_ms      integer   not null,
  on_unknown         text                                    -- hold, resend; null: as the channel has it
) strict;
create unique index delivery_key on delivery (key);
create index delivery_owner on delivery (owner, id);
create index delivery_due on delivery (due_ms) where due_ms is not null;
create index delivery_for_people on delivery (state, id) where state in (2, 3, 5, 6);
create index delivery_without_evidence on delivery (id) where state = 4 and evidence_at_ms is null;

-- What was tried, and what the provider said.
create table delivery_attempt (
  delivery_id blob   not null,
  number      integer not null,                               -- the hold's number
  kind        text   not null,                               -- send, lookup
  token       text   not null,
  began_at_ms integer not null,
  ended_at_ms integer,
  outcome     text   not null,
  words       text   not null,
  primary key (delivery_id, number)
) strict;

-- Recipients that want nothing more (410). Deliveries to them fail unsent, until a person's resend is taken.
create table stopped_recipient (
  owner     text   not null,
  recipient text   not null,
  since_ms  integer not null,
  words     text   not null,
  primary key (owner, recipient)
) strict;

alter table pause add column channel text;
