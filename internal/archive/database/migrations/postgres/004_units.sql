-- Units outside pods. Earlier rows belong only to pods or reasons. The primary keys are built only once.
alter table charges
  add column if not exists manager text not null default '',
  add column if not exists unit text not null default '',
  add column if not exists username text not null default '';

alter table corrections
  add column if not exists manager text not null default '',
  add column if not exists unit text not null default '',
  add column if not exists username text not null default '';

do $$ begin
  if not exists (select from schema_version where version >= 4) then
    alter table charges drop constraint if exists charges_pkey,
      add primary key (cluster, hour, node, uuid, namespace, pod, pod_uid, manager, unit, reason);
    alter table corrections drop constraint if exists corrections_pkey,
      add primary key (cluster, hour, revision, node, uuid, namespace, pod, pod_uid, manager, unit, reason);
  end if;
end $$;
