-- The last job of an item's earlier version. A version that nothing processes has no job to lead back to it.
alter table item_version add column lane_key integer, add column job_seq bigint;
