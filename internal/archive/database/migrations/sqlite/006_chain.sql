-- The chain of each cluster: a row for each change of an hour. Rows are only added.
create table if not exists chain (
  cluster text not null,
  hour text not null,
  sequence bigint not null,
  kind text not null,
  filed_at text not null,
  state text not null,
  rows_digest text not null,
  manifest_digest text not null,
  previous text not null,
  hash text not null,
  key_id text not null,
  signature text not null,
  primary key (cluster, sequence)
);
create index if not exists chain_hour on chain (cluster, hour);
