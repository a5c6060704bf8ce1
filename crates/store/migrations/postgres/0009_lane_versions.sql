-- A lane's row is written with every claim and every completion. While a transaction is open for long, vacuum may remove none of
-- its old versions, and whoever looked the row up by its key, or checked that the key is unique, went through all of them. By (key,
-- turn), newest first, it is found at once: a lane's turn only rises. That a lane has one row is kept by lane_of, whose key is unique and
-- which is written with it.
alter table lane drop constraint lane_pkey;
alter table lane replica identity full;
create index lane_newest on lane (lane_key, served);
