-- When a step began: its attempt's start, or the end of the step before it. Not known of steps that were done before.
alter table job_step add column started_at_ms bigint;
