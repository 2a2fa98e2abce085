-- Rows are only added.
create table if not exists events (
  cluster varchar(255) not null,
  hour datetime(3) not null,
  at datetime(3),
  id varchar(255) not null,
  event text not null,
  namespace text not null,
  pod text not null,
  pod_uid text not null,
  resource_version text not null,
  node text not null,
  owner_kind text not null,
  owner_name text not null,
  workload_kind text not null,
  workload_name text not null,
  workload_uid text not null,
  detail mediumtext not null,
  primary key (cluster, hour, id),
  index events_pod_uid (pod_uid(64), at)
) engine = innodb, character set utf8mb4 collate utf8mb4_bin;

create table if not exists snapshots (
  cluster varchar(255) not null,
  hour datetime(3) not null,
  at datetime(3),
  id varchar(255) not null,
  namespace text not null,
  pod text not null,
  pod_uid text not null,
  resource_version text not null,
  node text not null,
  object mediumtext not null,
  primary key (cluster, hour, id),
  index snapshots_pod_uid (pod_uid(64), at)
) engine = innodb, character set utf8mb4 collate utf8mb4_bin;
