-- The views, in the dialect of MySQL and MariaDB. PostgreSQL has other functions for the date in UTC and for JSON. A change of a view needs a
-- migration, because views are created again only after a migration. The migration may contain no statements.

-- The charges and their corrections. Revision is 0 for charges. New columns are added at the end of a view, so that PostgreSQL can replace the view.
create or replace view billed as
select cluster, hour, 0 as revision, node, uuid, serial, namespace, pod, pod_uid, workload_kind, workload_name, workload_uid, team, reason,
  energy_mj, exclusive_mj, idle_mj, held_ms, gpu_ms, active_ms, manager, unit, username, estimated_mj, busy_ms, began, ended,
  thermal_energy_mj, thermal_ms, power_brake_energy_mj, power_brake_ms, queue, cluster_queue, labels,
  profiled_ms, tensor_active_ms, dram_active_ms
from charges
union all
select cluster, hour, revision, node, uuid, serial, namespace, pod, pod_uid, workload_kind, workload_name, workload_uid, team, reason,
  energy_mj, exclusive_mj, idle_mj, held_ms, gpu_ms, active_ms, manager, unit, username, estimated_mj, busy_ms, began, ended,
  thermal_energy_mj, thermal_ms, power_brake_energy_mj, power_brake_ms, queue, cluster_queue, labels,
  profiled_ms, tensor_active_ms, dram_active_ms
from corrections;

-- The amounts of each day in UTC. The amounts of pruned hours are added up by month, on its first day. The energy of all rows is the energy of all boards.
create or replace view statements as
select cluster, day, namespace, workload_kind, workload_name, team, reason,
  sum(energy_mj) as energy_mj, sum(exclusive_mj) as exclusive_mj, sum(idle_mj) as idle_mj,
  sum(held_ms) as held_ms, sum(gpu_ms) as gpu_ms, sum(active_ms) as active_ms, manager, unit, username,
  sum(estimated_mj) as estimated_mj, sum(busy_ms) as busy_ms,
  sum(thermal_energy_mj) as thermal_energy_mj, sum(thermal_ms) as thermal_ms, sum(power_brake_energy_mj) as power_brake_energy_mj, sum(power_brake_ms) as power_brake_ms,
  queue, cluster_queue, labels,
  nullif(sum(profiled_ms), 0) as profiled_ms, case when sum(profiled_ms) <> 0 then sum(tensor_active_ms) end as tensor_active_ms,
  case when sum(profiled_ms) <> 0 then sum(dram_active_ms) end as dram_active_ms
from (
  select cluster, day, namespace, workload_kind, workload_name, team, reason,
    energy_mj, exclusive_mj, idle_mj, held_ms, gpu_ms, active_ms, manager, unit, username, estimated_mj, busy_ms,
    thermal_energy_mj, thermal_ms, power_brake_energy_mj, power_brake_ms, queue, cluster_queue, labels,
  profiled_ms, tensor_active_ms, dram_active_ms
  from days
  union all
  select cluster, date(month), namespace, workload_kind, workload_name, team, reason,
    energy_mj, exclusive_mj, idle_mj, held_ms, gpu_ms, active_ms, manager, unit, username, estimated_mj, busy_ms,
    thermal_energy_mj, thermal_ms, power_brake_energy_mj, power_brake_ms, queue, cluster_queue, labels,
  profiled_ms, tensor_active_ms, dram_active_ms
  from monthly_charges
) as summed
group by cluster, day, namespace, workload_kind, workload_name, team, reason, manager, unit, username, queue, cluster_queue, labels;

-- The use of each GPU by each pod or unit, from the first to the last hour. The columns began and ended contain the
-- times of the first and the last scrape. In rows from earlier versions, both times are full hours.
create or replace view allocations as
select cluster, node, uuid, max(serial) as serial, namespace, pod, pod_uid,
  max(workload_kind) as workload_kind, max(workload_name) as workload_name, max(workload_uid) as workload_uid, max(team) as team,
  min(first_hour) as first_hour, max(last_hour) as last_hour,
  sum(energy_mj) as energy_mj, sum(exclusive_mj) as exclusive_mj, sum(idle_mj) as idle_mj,
  sum(held_ms) as held_ms, sum(gpu_ms) as gpu_ms, sum(active_ms) as active_ms, manager, unit, max(username) as username,
  sum(estimated_mj) as estimated_mj, sum(busy_ms) as busy_ms,
  min(began) as began, max(ended) as ended,
  sum(thermal_energy_mj) as thermal_energy_mj, sum(thermal_ms) as thermal_ms, sum(power_brake_energy_mj) as power_brake_energy_mj, sum(power_brake_ms) as power_brake_ms,
  max(queue) as queue, max(cluster_queue) as cluster_queue, max(labels) as labels,
  nullif(sum(profiled_ms), 0) as profiled_ms, case when sum(profiled_ms) <> 0 then sum(tensor_active_ms) end as tensor_active_ms,
  case when sum(profiled_ms) <> 0 then sum(dram_active_ms) end as dram_active_ms
from days
where reason = ''
group by cluster, node, uuid, namespace, pod, pod_uid, manager, unit;

-- The numbered stays of each GPU in a place. A stay ends when the GPU is in another place, or is
-- missing from a filed hour of its cluster. missing_since is the first filed hour without the GPU in
-- this place, or null while the GPU is present. The event at the start of a stay is seen, moved or
-- returned. An attribute of a place may become known during a stay.
create or replace view placements as
with readings as (
  select gpu_days.*, lag(last_hour) over gpu as left_hour, lag(cluster) over gpu as last_cluster, lag(node) over gpu as last_node,
    lag(system_uuid) over gpu as last_system_uuid, lag(chassis_serial) over gpu as last_chassis_serial,
    lag(chassis_slot) over gpu as last_chassis_slot, lag(pci_bus_id) over gpu as last_pci_bus_id
  from gpu_days where scrapes > 0
  window gpu as (partition by uuid order by first_hour, first_seen)
), starts as (
  select readings.*, case
    when left_hour is null then 'seen'
    when cluster <> last_cluster or node <> last_node
      or system_uuid <> last_system_uuid and '' not in (system_uuid, last_system_uuid)
      or chassis_serial <> last_chassis_serial and '' not in (chassis_serial, last_chassis_serial)
      or chassis_slot <> last_chassis_slot and '' not in (chassis_slot, last_chassis_slot)
      or pci_bus_id <> last_pci_bus_id and '' not in (pci_bus_id, last_pci_bus_id) then 'moved'
    when first_hour > left_hour + interval '1' hour and exists (
      select 1 from hours where hours.cluster = readings.cluster and hours.hour > left_hour and hours.hour < first_hour
    ) then 'returned'
    end as start_event
  from readings
), stays as (
  select starts.*, count(start_event) over (partition by uuid order by first_hour, first_seen) as stay from starts
), summed as (
  select cluster, node, max(system_uuid) as system_uuid, max(machine) as machine, max(chassis_serial) as chassis_serial,
    max(chassis_slot) as chassis_slot, max(tray_index) as tray_index, max(pci_bus_id) as pci_bus_id,
    uuid, max(serial) as serial, max(model) as model, stay, max(start_event) as start_event,
    min(first_seen) as first_seen, max(last_seen) as last_seen, max(last_hour) as last_hour, sum(energy_mj) as energy_mj
  from stays
  group by uuid, stay, cluster, node
)
select cluster, node, system_uuid, machine, chassis_serial, chassis_slot, tray_index, pci_bus_id, uuid, serial, model, stay, start_event,
  first_seen, last_seen,
  (select min(hour) from hours where hours.cluster = summed.cluster and hours.hour > summed.last_hour) as missing_since, energy_mj
from summed;

-- The events of boards. replaced means that another board was in this place before. lost means that the board is in no
-- place in a filed hour. silent means that the board is lost, and that its node has no other board in this hour.
create or replace view board_events as
with stays as (
  select placements.*, lead(first_seen) over gpu as seen_again, lag(cluster) over gpu as last_cluster, lag(node) over gpu as last_node,
    lag(chassis_slot) over gpu as last_slot, lag(uuid) over place as last_uuid, lag(serial) over place as last_serial
  from placements
  window gpu as (partition by uuid order by stay),
    place as (partition by cluster, node, system_uuid, pci_bus_id order by first_seen)
), accompanied as (
  select distinct stays.uuid, stays.stay
  from stays join gpu_days as others on others.cluster = stays.cluster and others.node = stays.node and others.day = date(missing_since)
  where others.first_hour <= missing_since and others.last_hour >= missing_since and others.scrapes > 0
)
select first_seen as event_time, start_event as event, cluster, node, chassis_serial, chassis_slot, pci_bus_id, uuid, serial,
  last_cluster as previous_cluster, last_node as previous_node, last_slot as previous_slot, null as previous_uuid, null as previous_serial
from stays
union all
select first_seen, 'replaced', cluster, node, chassis_serial, chassis_slot, pci_bus_id, uuid, serial, null, null, null, last_uuid, last_serial
from stays where last_uuid <> uuid and pci_bus_id <> ''
union all
select last_seen, case when accompanied.uuid is null then 'silent' else 'lost' end,
  cluster, node, chassis_serial, chassis_slot, pci_bus_id, stays.uuid, serial, null, null, null, null, null
from stays left join accompanied on accompanied.uuid = stays.uuid and accompanied.stay = stays.stay
where missing_since is not null and (seen_again is null or seen_again > missing_since + interval '1' hour);

-- Readings of serial numbers, in gpuid's columns. All GPUs of a board have the same serial number, which is listed once for each node and hour.
create or replace view serials as
select cluster, node, max(coalesce(nullif(machine, ''), system_uuid)) as machine, 'gpuledger' as source, max(chassis_serial) as chassis,
  serial as gpu, max(last_seen) as read_time
from gpu_hours
where serial <> '' and scrapes > 0
group by cluster, hour, node, serial;

-- The tables of Primus-Lens, with the columns that the archive can fill. The times of GPU use are
-- times of scrapes, and all other times are full hours. Workloads and pods with a row in the newest
-- filed hour are still running.
create or replace view gpu_workload as
select cluster, kind, namespace, name, uid, max(parent_uid) as parent_uid, min(workloads.hour) as created_at, max(workloads.hour) as updated_at,
  case when max(workloads.hour) < max(newest.hour) then max(workloads.hour) + interval '1' hour end as end_at
from workloads
join (select cluster, max(hour) as hour from hours group by cluster) as newest using (cluster)
group by cluster, kind, namespace, name, uid;

create or replace view pod_resource as
select cluster, pod_uid as uid, model as gpu_model, count(distinct uuid) as gpu_allocated, min(began) as created_at,
  case when max(last_hour) < max(newest.hour) then max(ended) end as end_at
from allocations
join (select uuid, max(model) as model from gpu_days group by uuid) as models using (uuid)
join (select cluster, max(hour) as hour from hours group by cluster) as newest using (cluster)
where unit = ''
group by cluster, pod_uid, model;

create or replace view gpu_pods as
select pods.cluster, pods.namespace, pods.pod as name, max(pods.node) as node_name, pods.pod_uid as uid,
  coalesce(max(held.gpus), 0) as gpu_allocated, max(pods.hour) = max(newest.hour) and max(pods.node) <> '' as running,
  max(pods.hour) < max(newest.hour) as deleted, max(owners.uid) as owner_uid,
  case when min(held.began) < min(pods.hour) + interval '1' hour then min(held.began) else min(pods.hour) end as created_at,
  case when max(held.ended) > max(pods.hour) then max(held.ended) else max(pods.hour) end as updated_at
from pods
join (select cluster, max(hour) as hour from hours group by cluster) as newest on newest.cluster = pods.cluster
left join (
  select cluster, pod_uid, count(distinct uuid) as gpus, min(began) as began, max(ended) as ended from allocations where unit = '' group by cluster, pod_uid
) as held on held.cluster = pods.cluster and held.pod_uid = pods.pod_uid
left join workloads as owners on owners.cluster = pods.cluster and owners.hour = pods.hour and owners.kind = pods.owner_kind
  and owners.namespace = pods.namespace and owners.name = pods.owner_name
group by pods.cluster, pods.namespace, pods.pod, pods.pod_uid;

-- The pods of each workload, at each level of the owner chain.
create or replace view workload_pod_reference as
with recursive owners as (
  select cluster, owner_uid as workload_uid, uid as pod_uid from gpu_pods where owner_uid is not null
  union
  select cluster, workload_uid, pod_uid from pods where workload_uid <> ''
), levels as (
  select cluster, workload_uid, pod_uid from owners
  union
  select levels.cluster, parents.parent_uid, levels.pod_uid
  from levels join gpu_workload as parents on parents.cluster = levels.cluster and parents.uid = levels.workload_uid
  where parents.parent_uid <> ''
)
select cluster, workload_uid, pod_uid from levels;

-- Primus-Lens's events of pods. An event is the name of a condition that became true, or the kind of
-- any other event. The columns contain the state at the time of the event.
create or replace view gpu_pods_event as
select cluster, namespace, pod as name, pod_uid as pod_uuid,
  coalesce((
    select json_value(phases.detail, '$.to') from events as phases
    where phases.cluster = e.cluster and phases.pod_uid = e.pod_uid and phases.event = 'phase' and phases.at <= e.at
    order by phases.at desc, phases.id limit 1
  ), '') as pod_phase,
  case event when 'condition' then json_value(detail, '$.condition') else event end as event_type, at as created_at,
  coalesce((
    select max(cast(json_value(failures.detail, '$.restarts') as decimal(18))) from events as failures
    where failures.cluster = e.cluster and failures.pod_uid = e.pod_uid and failures.event = 'failure' and failures.at <= e.at
  ), 0) as restart_count
from events as e
where pod_uid <> '' and (event <> 'condition' or json_value(detail, '$.to') = 'True');

create or replace view pod_snapshot as
select cluster, namespace, pod as name, pod_uid, json_extract(object, '$.spec') as spec, json_extract(object, '$.metadata') as metadata,
  json_extract(object, '$.status') as status, resource_version, at as created_at
from snapshots;
