-- Charges and corrections of filed hours. Later columns are missing from files that were written before an
-- upgrade. After a crash, corrections may have a later revision than their hour. A charge has the model of its
-- hour. A correction of an hour without samples has the model of its day.
select filed.cluster, filed.hour, {{ utc_day('filed.hour') }} as day, {{ utc_month('filed.hour') }} as month,
  filed.node, filed.uuid, filed.serial, coalesce(boards.model, of_day.model, '') as model,
  filed.namespace, filed.pod, filed.workload_kind, filed.workload_name, filed.team, filed.reason,
  coalesce(filed.manager, '') as manager, coalesce(filed.unit, '') as unit, coalesce(filed.username, '') as username,
  filed.energy_mj, filed.exclusive_mj, filed.idle_mj, coalesce(filed.estimated_mj, 0) as estimated_mj,
  filed.gpu_ms, filed.active_ms, coalesce(filed.busy_ms, 0) as busy_ms, filed.profiled_ms, filed.tensor_active_ms, filed.dram_active_ms
from (
  select 0 as revision, cluster, hour, node, uuid, serial, namespace, pod, workload_kind, workload_name, team, reason, manager, unit, username,
    energy_mj, exclusive_mj, idle_mj, estimated_mj, gpu_ms, active_ms, busy_ms, profiled_ms, tensor_active_ms, dram_active_ms
  from {{ source('gpuledger', 'charges') }} as charges
  union all
  select revision, cluster, hour, node, uuid, serial, namespace, pod, workload_kind, workload_name, team, reason, manager, unit, username,
    energy_mj, exclusive_mj, idle_mj, estimated_mj, gpu_ms, active_ms, busy_ms, profiled_ms, tensor_active_ms, dram_active_ms
  from {{ source('gpuledger', 'corrections') }} as corrections
) as filed
join {{ source('gpuledger', 'hours') }} as hours
  on hours.cluster = filed.cluster and hours.hour = filed.hour and hours.revision >= filed.revision and hours.state <> 'pruned'
left join (
  select cluster, hour, node, uuid, nullif(model, '') as model from {{ source('gpuledger', 'gpu_hours') }} as gpu_hours
) as boards on boards.cluster = filed.cluster and boards.hour = filed.hour and boards.node = filed.node and boards.uuid = filed.uuid
left join (
  select cluster, {{ utc_day('hour') }} as day, uuid, max(model) as model from {{ source('gpuledger', 'gpu_hours') }} as gpu_hours group by 1, 2, 3
) as of_day on of_day.cluster = filed.cluster and of_day.day = {{ utc_day('filed.hour') }} and of_day.uuid = filed.uuid
