-- These GPUs are held, but not used. Active time can exceed GPU time, because allocations may become known late.
select cluster, month, namespace, team,
  cast(sum(energy_mj) as bigint) as energy_mj, cast(sum(idle_mj) as bigint) as idle_mj, cast(sum(gpu_ms) as bigint) as gpu_ms,
  cast(case when sum(gpu_ms) > sum(active_ms) then sum(gpu_ms) - sum(active_ms) else 0 end as bigint) as idle_gpu_ms
from {{ ref('gpu_monthly') }} as monthly
where reason = ''
group by cluster, month, namespace, team
