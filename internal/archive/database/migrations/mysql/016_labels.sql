-- Labels of pods. Earlier rows have none.
alter table charges, corrections, monthly_charges, pods, days add column if not exists labels varchar(1024) not null after cluster_queue;
