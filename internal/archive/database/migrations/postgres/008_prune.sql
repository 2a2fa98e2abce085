-- Rows of months without a partition.
create table if not exists gpu_hours_default partition of gpu_hours default;
create table if not exists charges_default partition of charges default;
create table if not exists pods_default partition of pods default;
create table if not exists workloads_default partition of workloads default;
create table if not exists events_default partition of events default;
create table if not exists snapshots_default partition of snapshots default;

-- The sums of pruned hours. Charges with the same texts are added up.
create table if not exists monthly_charges (
  cluster text not null,
  month timestamptz not null,
  hours text not null,
  model text not null,
  namespace text not null,
  workload_kind text not null,
  workload_name text not null,
  team text not null,
  reason text not null,
  energy_mj bigint not null,
  exclusive_mj bigint not null,
  idle_mj bigint not null,
  held_ms bigint not null,
  gpu_ms bigint not null,
  active_ms bigint not null,
  manager text not null,
  unit text not null,
  username text not null
);
create index if not exists monthly_charges_month on monthly_charges (month, cluster);

-- The roles that may use charges may also use their sums.
do $$ declare granted record; begin
  for granted in
    select grantee, privilege_type from information_schema.table_privileges
    where table_schema = current_schema() and table_name = 'charges' and privilege_type in ('SELECT', 'INSERT', 'DELETE') and grantee <> current_user
  loop
    execute format('grant %s on monthly_charges to %s', granted.privilege_type,
      case granted.grantee when 'PUBLIC' then 'public' else quote_ident(granted.grantee) end);
  end loop;
end $$;
