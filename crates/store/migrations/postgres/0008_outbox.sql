-- What was told stays told, whatever becomes of a resend; and what has come to its end for long is forgotten.

alter table delivery add column told_before_ms bigint;          -- when the recipient was first told, under an earlier token
alter table delivery add column ended_at_ms bigint;             -- when it was sent, failed or cancelled; null: it may still move
update delivery set ended_at_ms = coalesce(evidence_at_ms, notified_at_ms, landed_by_ms, created_at_ms) where state in (4, 5, 7);

-- From when on the time that a notification is kept is counted: since it was made, and when retention finds that this is not its end,
-- since then. Null: its words and deliveries are forgotten, and the row answers for its key and its version.
alter table notification add column kept_since_ms bigint;
alter table notification add column expired_as text;             -- what had become of it by then
update notification set kept_since_ms = created_at_ms;
create index notification_kept on notification (kept_since_ms) where kept_since_ms is not null;

-- What is due at one host, behind whatever another's backlog is.
create index delivery_host on delivery (destination, due_ms) where due_ms is not null;
