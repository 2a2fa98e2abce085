-- statements
select cluster, date(hour) as day, namespace, workload_kind, workload_name, team, reason,
  sum(energy_mj) as energy_mj, sum(exclusive_mj) as exclusive_mj, sum(idle_mj) as idle_mj,
  sum(held_ms) as held_ms, sum(gpu_ms) as gpu_ms, sum(active_ms) as active_ms, manager, unit, username,
  sum(estimated_mj) as estimated_mj, sum(busy_ms) as busy_ms,
  sum(thermal_energy_mj) as thermal_energy_mj, sum(thermal_ms) as thermal_ms, sum(power_brake_energy_mj) as power_brake_energy_mj, sum(power_brake_ms) as power_brake_ms,
  queue, cluster_queue, labels,
  nullif(sum(profiled_ms), 0) as profiled_ms, case when sum(profiled_ms) <> 0 then sum(tensor_active_ms) end as tensor_active_ms,
  case when sum(profiled_ms) <> 0 then sum(dram_active_ms) end as dram_active_ms
from (
  select cluster, hour, namespace, workload_kind, workload_name, team, reason,
    energy_mj, exclusive_mj, idle_mj, held_ms, gpu_ms, active_ms, manager, unit, username, estimated_mj, busy_ms,
    thermal_energy_mj, thermal_ms, power_brake_energy_mj, power_brake_ms, queue, cluster_queue, labels,
  profiled_ms, tensor_active_ms, dram_active_ms
  from billed
  union all
  select cluster, month, namespace, workload_kind, workload_name, team, reason,
    energy_mj, exclusive_mj, idle_mj, held_ms, gpu_ms, active_ms, manager, unit, username, estimated_mj, busy_ms,
    thermal_energy_mj, thermal_ms, power_brake_energy_mj, power_brake_ms, queue, cluster_queue, labels,
  profiled_ms, tensor_active_ms, dram_active_ms
  from monthly_charges
) as summed
group by cluster, date(hour), namespace, workload_kind, workload_name, team, reason, manager, unit, username, queue, cluster_queue, labels;
-- allocations
select cluster, node, uuid, max(serial) as serial, namespace, pod, pod_uid,
  max(workload_kind) as workload_kind, max(workload_name) as workload_name, max(workload_uid) as workload_uid, max(team) as team,
  min(hour) as first_hour, max(hour) as last_hour,
  sum(energy_mj) as energy_mj, sum(exclusive_mj) as exclusive_mj, sum(idle_mj) as idle_mj,
  sum(held_ms) as held_ms, sum(gpu_ms) as gpu_ms, sum(active_ms) as active_ms, manager, unit, max(username) as username,
  sum(estimated_mj) as estimated_mj, sum(busy_ms) as busy_ms,
  min(coalesce(began, hour)) as began, max(coalesce(ended, strftime('%Y-%m-%dT%H:%M:%fZ', hour, '+1 hour'))) as ended,
  sum(thermal_energy_mj) as thermal_energy_mj, sum(thermal_ms) as thermal_ms, sum(power_brake_energy_mj) as power_brake_energy_mj, sum(power_brake_ms) as power_brake_ms,
  max(queue) as queue, max(cluster_queue) as cluster_queue, max(labels) as labels,
  nullif(sum(profiled_ms), 0) as profiled_ms, case when sum(profiled_ms) <> 0 then sum(tensor_active_ms) end as tensor_active_ms,
  case when sum(profiled_ms) <> 0 then sum(dram_active_ms) end as dram_active_ms
from billed
where reason = ''
group by cluster, node, uuid, namespace, pod, pod_uid, manager, unit;
-- placements
with readings as (
  select cluster, hour, node, system_uuid, machine, chassis_serial, chassis_slot, tray_index, pci_bus_id, uuid, serial, model,
    first_seen, last_seen, energy_mj, previous_hour, next_hour,
    lag(hour) over gpu as last_hour, lag(cluster) over gpu as last_cluster, lag(node) over gpu as last_node,
    lag(system_uuid) over gpu as last_system_uuid, lag(chassis_serial) over gpu as last_chassis_serial,
    lag(chassis_slot) over gpu as last_chassis_slot, lag(pci_bus_id) over gpu as last_pci_bus_id
  from gpu_hours
  join (
    select cluster, hour, lag(hour) over cluster_hours as previous_hour, lead(hour) over cluster_hours as next_hour
    from hours window cluster_hours as (partition by cluster order by hour)
  ) as filed using (cluster, hour)
  where scrapes > 0
  window gpu as (partition by uuid order by hour, first_seen)
), starts as (
  select readings.*, case
    when last_hour is null then 'seen'
    when cluster <> last_cluster or node <> last_node
      or system_uuid <> last_system_uuid and '' not in (system_uuid, last_system_uuid)
      or chassis_serial <> last_chassis_serial and '' not in (chassis_serial, last_chassis_serial)
      or chassis_slot <> last_chassis_slot and '' not in (chassis_slot, last_chassis_slot)
      or pci_bus_id <> last_pci_bus_id and '' not in (pci_bus_id, last_pci_bus_id) then 'moved'
    when last_hour < previous_hour then 'returned'
    end as start_event
  from readings
), stays as (
  select starts.*, count(start_event) over (partition by uuid order by hour, first_seen) as stay from starts
)
select cluster, node, max(system_uuid) as system_uuid, max(machine) as machine, max(chassis_serial) as chassis_serial,
  max(chassis_slot) as chassis_slot, max(tray_index) as tray_index, max(pci_bus_id) as pci_bus_id,
  uuid, max(serial) as serial, max(model) as model, stay, max(start_event) as start_event,
  min(first_seen) as first_seen, max(last_seen) as last_seen,
  case when max(next_hour) > max(hour) then max(next_hour) end as missing_since, sum(energy_mj) as energy_mj
from stays
group by uuid, stay, cluster, node;
-- pod_resource
select cluster, pod_uid as uid, model as gpu_model, count(distinct uuid) as gpu_allocated, min(began) as created_at,
  case when max(last_hour) < max(newest.hour) then max(ended) end as end_at
from allocations
join (select uuid, max(model) as model from gpu_hours group by uuid) as models using (uuid)
join (select cluster, max(hour) as hour from hours group by cluster) as newest using (cluster)
where unit = ''
group by cluster, pod_uid, model;
-- board_events
with stays as (
  select placements.*, lead(first_seen) over gpu as seen_again, lag(cluster) over gpu as last_cluster, lag(node) over gpu as last_node,
    lag(chassis_slot) over gpu as last_slot, lag(uuid) over place as last_uuid, lag(serial) over place as last_serial
  from placements
  window gpu as (partition by uuid order by stay),
    place as (partition by cluster, node, system_uuid, pci_bus_id order by first_seen)
)
select first_seen as event_time, start_event as event, cluster, node, chassis_serial, chassis_slot, pci_bus_id, uuid, serial,
  last_cluster as previous_cluster, last_node as previous_node, last_slot as previous_slot, null as previous_uuid, null as previous_serial
from stays
union all
select first_seen, 'replaced', cluster, node, chassis_serial, chassis_slot, pci_bus_id, uuid, serial, null, null, null, last_uuid, last_serial
from stays where last_uuid <> uuid and pci_bus_id <> ''
union all
select last_seen,
  case when exists (
    select 1 from gpu_hours as others
    where others.cluster = stays.cluster and others.hour = stays.missing_since and others.node = stays.node and others.scrapes > 0
  ) then 'lost' else 'silent' end,
  cluster, node, chassis_serial, chassis_slot, pci_bus_id, uuid, serial, null, null, null, null, null
from stays where missing_since is not null and (seen_again is null or seen_again > strftime('%Y-%m-%dT%H:%M:%fZ', missing_since, '+1 hour'));
