-- What was told stays told, whatever becomes of a resend.

alter table delivery add column told_before_ms bigint;           -- when the recipient was first told, under an earlier token
