-- Rows are only added. Each month has a partition.
create table if not exists events (
  cluster text not null,
  hour timestamptz not null,
  at timestamptz,
  id text not null,
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
  detail text not null,
  primary key (cluster, hour, id)
) partition by range (hour);
create index if not exists events_pod_uid on events (pod_uid, at);

create table if not exists snapshots (
  cluster text not null,
  hour timestamptz not null,
  at timestamptz,
  id text not null,
  namespace text not null,
  pod text not null,
  pod_uid text not null,
  resource_version text not null,
  node text not null,
  object text not null,
  primary key (cluster, hour, id)
) partition by range (hour);
create index if not exists snapshots_pod_uid on snapshots (pod_uid, at);
