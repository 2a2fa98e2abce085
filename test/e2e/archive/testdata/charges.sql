-- A history of 400 GPUs until December 2026, with 1,000 charges in each of %d hours. GPUs are silent for 12 hours in 4,000, and some move once. Pods run for
-- three days. Every second GPU is shared by two pods.
set search_path = gpuledger;
set timezone = 'UTC';

create temporary table gpus as
select h, at, i, 'gpu-' || place as node, place, 'GPU-' || md5(i::text) as uuid, (1653924023000 + i)::text as serial
from generate_series(0, %[1]d - 1) as h cross join generate_series(0, 399) as i
cross join lateral (select timestamptz '2026-12-01' - (%[1]d - h) * interval '1 hour' as at) as hours
cross join lateral (select i / 8 + case when i %% 40 = 22 and h > i * 20 then 100 else 0 end as place) as places
where (h + i * 37) %% 4000 >= 12
order by h, i;

insert into gpu_hours
select 'example', at, node, uuid, serial, 'chassis-' || place, (place %% 18)::text, '', '00000000:' || (i %% 8 + 16) || ':00.0', 'NVIDIA H100 80GB HBM3',
  md5(node), 'i-' || place, at + interval '1 minute', at + interval '59 minutes', 60, 1800000000, 'nvml', 'board',
  case when (h * 400 + i) %% 99991 = 0 then '79=1' else '' end, 0, 0, 0, 0, 0, 0
from gpus;

insert into charges
select 'example', at, node, uuid, serial, 'ml-' || i %% 40, pod, md5(pod), 'Job', 'train' || coalesce('-' || nullif((i + h / 72) %% 500, 77), ''), md5('workload' || pod),
  'team-' || i %% 20, '', 700000000, 600000000, 0, 3600000, 3600000 / pods, 3000000 / pods, '', '', '', 0, 0, at, at + interval '59 minutes'
from gpus cross join lateral (select 1 + i %% 2 as pods) as shared cross join lateral generate_series(1, pods) as n
cross join lateral (select 'train-' || i || '-' || h / 72 || '-' || n as pod) as pods;

insert into charges
select 'example', at, node, uuid, serial, '', '', '', '', '', '', '', 'idle', 1800000000 - 700000000 * (1 + i %% 2), 0, 1800000000 - 700000000 * (1 + i %% 2), 0, 0, 0, '', '', '', 0, 0, null, null
from gpus;

insert into hours
select 'example', gpu_hours.hour, 'complete', 1, count(*), max(n), sum(energy_mj), sum(scrapes), 0, '', 0, '', 0
from gpu_hours join (select hour, count(*) as n from charges group by hour) as charged on charged.hour = gpu_hours.hour group by gpu_hours.hour;

drop table gpus;
vacuum analyze;
