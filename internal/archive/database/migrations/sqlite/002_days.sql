-- The daily sums. They are computed below from the existing hours.
create table if not exists days (
  cluster text not null,
  day text not null,
  node text not null,
  uuid text not null,
  serial text not null,
  namespace text not null,
  pod text not null,
  pod_uid text not null,
  workload_kind text not null,
  workload_name text not null,
  workload_uid text not null,
  team text not null,
  reason text not null,
  manager text not null,
  unit text not null,
  username text not null,
  hours bigint not null,
  first_hour text,
  last_hour text,
  energy_mj bigint not null,
  exclusive_mj bigint not null,
  idle_mj bigint not null,
  held_ms bigint not null,
  gpu_ms bigint not null,
  active_ms bigint not null,
  estimated_mj bigint not null,
  busy_ms bigint not null,
  began text,
  ended text
);
create index if not exists days_day on days (day, cluster);
create index if not exists days_uuid on days (uuid, day);

create table if not exists gpu_days (
  cluster text not null,
  day text not null,
  node text not null,
  uuid text not null,
  serial text not null,
  chassis_serial text not null,
  chassis_slot text not null,
  tray_index text not null,
  pci_bus_id text not null,
  model text not null,
  system_uuid text not null,
  machine text not null,
  hours bigint not null,
  first_hour text,
  last_hour text,
  first_seen text,
  last_seen text,
  scrapes bigint not null,
  energy_mj bigint not null
);
create index if not exists gpu_days_day on gpu_days (day, cluster, node);
create index if not exists gpu_days_uuid on gpu_days (uuid, day);
