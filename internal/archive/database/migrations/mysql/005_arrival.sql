-- Events with impossible times are filed in the hour of their arrival. MySQL cannot add a column only if it is missing.
alter table events, snapshots add column if not exists filed_by varchar(256) not null;
