-- Sealed blocks of the log. `hash` covers everything but `secret`, `marks` and `until_ms`; docs/reference/audit.md has the bytes.
create table seal (
  number       integer primary key,                          -- from 1, without a gap
  first_tx     integer not null,
  first_id     integer not null,
  last_tx      integer not null,
  last_id      integer not null,
  before       integer not null,                             -- entries in all earlier blocks
  entries      integer not null,
  root         blob    not null,                             -- of the tree over the entries' hashes
  previous     blob    not null,                             -- the hash of the block before
  hash         blob    not null,
  sealed_at_ms integer not null,
  secret       blob    not null,                             -- what the salts of the entries are derived from
  marks        blob    not null,                             -- 8 bytes of each entry's hash, to name one that was changed
  until_ms     integer not null                              -- the latest time of any entry up to here
) strict;
create index seal_until on seal (until_ms, number);

create trigger seal_no_update before update on seal
begin select raise(abort, 'the seals of the log are append-only: they are never changed or deleted'); end;
create trigger seal_no_delete before delete on seal
begin select raise(abort, 'the seals of the log are append-only: they are never changed or deleted'); end;
-- "insert or replace" deletes without asking the trigger above; here it is asked.
create trigger seal_no_replace before insert on seal when exists (select 1 from seal where number = new.number)
begin select raise(abort, 'the seals of the log are append-only: they are never changed or deleted'); end;
