-- API keys. Of a secret only its hash is kept, and its beginning, by which people tell keys apart. Rows stay when a key is
-- revoked: the log names them, and the first key is made only where there never was one.
create table api_key (
  id            uuid not null primary key,
  prefix        text not null,
  hash          bytea not null unique,
  role          text not null check (role in ('producer', 'worker', 'reviewer', 'lead', 'service', 'admin')),
  tenant_id     text,
  subject       text not null,
  created_at_ms bigint not null,
  created_by    text not null,
  revoked_at_ms bigint,
  revoked_by    text,
  check ((tenant_id is not null) = (role in ('producer', 'reviewer', 'lead')))
);
