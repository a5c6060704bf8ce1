-- The order of the log outlives the cluster: after a restore into a new one, transactions are numbered from the beginning again,
-- and the base is raised by what was numbered before. It is a function because the planner puts its value in the place of the
-- call, so that a write pays nothing for it, and plans it anew when the function is replaced.
create function log_base() returns bigint language sql stable parallel safe as 'select 0::bigint';
alter table log alter column tx set default (log_base() + pg_current_xact_id()::text::bigint);

-- Sealed blocks of the log. `hash` covers everything but `secret`, `marks` and `until_ms`; docs/reference/audit.md has the bytes.
create table seal (
  number       bigint  primary key,                          -- from 1, without a gap
  first_tx     bigint  not null,
  first_id     bigint  not null,
  last_tx      bigint  not null,
  last_id      bigint  not null,
  before       bigint  not null,                             -- entries in all earlier blocks
  entries      bigint  not null,
  root         bytea   not null,                             -- of the tree over the entries' hashes
  previous     bytea   not null,                             -- the hash of the block before
  hash         bytea   not null,
  sealed_at_ms bigint  not null,
  secret       bytea   not null,                             -- what the salts of the entries are derived from
  marks        bytea   not null,                             -- 8 bytes of each entry's hash, to name one that was changed
  until_ms     bigint  not null                              -- the latest time of any entry up to here
);
create index seal_until on seal (until_ms, number);

create function seal_refuses_change() returns trigger language plpgsql as $$
begin
  raise exception 'the seals of the log are append-only: they are never changed or deleted';
end $$;
create trigger seal_append_only before update or delete on seal
  for each row execute function seal_refuses_change();
create trigger seal_no_truncate before truncate on seal
  for each statement execute function seal_refuses_change();
