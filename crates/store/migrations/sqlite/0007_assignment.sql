-- Collections that assign, in which reviews may wait for somebody to become free. Whoever leaves one waiting writes the row after it;
-- whoever deletes the row locks it before they look whether one waits.
create table review_unassigned (
  collection_key integer primary key,
  tenant_id      text    not null,
  due_at_ms      integer not null                                     -- when it is looked at next
) strict;
create index review_unassigned_due on review_unassigned (due_at_ms);

-- Who gave a waiting review back: it is not assigned to them again. Written when nobody else is free, and of no meaning while it is
-- in hands.
alter table review add column given_back_by text;

-- Those that wait already: every collection that assigns is looked at once.
insert into review_unassigned (collection_key, tenant_id, due_at_ms)
select collection_key, tenant_id, 0 from collection where json_extract(settings, '$.review.assignment') = 'auto';
