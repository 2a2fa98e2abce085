-- The chain of each cluster: a row for each change of an hour. Rows are only added.
create table if not exists chain (
  cluster varchar(256) not null,
  hour datetime(3) not null,
  sequence bigint not null,
  kind varchar(256) not null,
  filed_at datetime(3) not null,
  state varchar(256) not null,
  rows_digest varchar(256) not null,
  manifest_digest varchar(256) not null,
  previous varchar(256) not null,
  hash varchar(256) not null,
  key_id varchar(256) not null,
  signature varchar(256) not null,
  primary key (cluster, sequence),
  index chain_hour (cluster, hour)
) engine = innodb, character set utf8mb4 collate utf8mb4_bin;
