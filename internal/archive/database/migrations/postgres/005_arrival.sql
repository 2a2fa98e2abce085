-- Events with impossible times are filed in the hour of their arrival.
alter table events, snapshots add column if not exists filed_by text not null default '';
