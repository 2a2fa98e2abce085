-- Each stay of a GPU in a place: consecutive hours with the same node, slot and PCI address.
create or replace view gpuledger.placements as
select cluster, node, uuid, max(serial) as serial, chassis_serial, chassis_slot, pci_bus_id,
  min(first_seen) as first_seen, max(last_seen) as last_seen, sum(energy_mj)::bigint as energy_mj
from (
  select *,
    row_number() over (partition by uuid order by hour, first_seen)
    - row_number() over (partition by uuid, cluster, node, chassis_serial, chassis_slot, pci_bus_id order by hour, first_seen) as stay
  from gpuledger.gpu_hours
  where scrapes > 0
) as stays
group by cluster, node, uuid, chassis_serial, chassis_slot, pci_bus_id, stay;

-- The energy and time of each namespace and day in UTC. Rows without a namespace have a reason.
create or replace view gpuledger.days as
select cluster, (hour at time zone 'UTC')::date as day, namespace, reason,
  sum(energy_mj)::bigint as energy_mj, sum(idle_mj)::bigint as idle_mj, sum(gpu_ms)::bigint as gpu_ms, sum(active_ms)::bigint as active_ms
from gpuledger.charges
group by cluster, day, namespace, reason;

-- Readings of serial numbers, in the columns of gpuid.
create or replace view gpuledger.serials as
select cluster, node, coalesce(nullif(machine, ''), system_uuid) as machine, 'gpuledger' as source, chassis_serial as chassis, serial as gpu, last_seen as read_time
from gpuledger.gpu_hours
where serial <> '' and scrapes > 0;
