-- Label values have up to 256 bytes.

alter table gpu_hours
  modify cluster varchar(256) not null,
  modify node varchar(256) not null,
  modify uuid varchar(256) not null,
  modify serial varchar(256) not null,
  modify chassis_serial varchar(256) not null,
  modify chassis_slot varchar(256) not null,
  modify tray_index varchar(256) not null,
  modify pci_bus_id varchar(256) not null,
  modify model varchar(256) not null,
  modify system_uuid varchar(256) not null,
  modify machine varchar(256) not null,
  modify energy_source varchar(256) not null,
  modify energy_scope varchar(256) not null;

alter table charges
  modify cluster varchar(256) not null,
  modify node varchar(256) not null,
  modify uuid varchar(256) not null,
  modify serial varchar(256) not null,
  modify namespace varchar(256) not null,
  modify pod varchar(256) not null,
  modify pod_uid varchar(256) not null,
  modify workload_kind varchar(256) not null,
  modify workload_name varchar(256) not null,
  modify workload_uid varchar(256) not null,
  modify team varchar(256) not null,
  modify reason varchar(256) not null;

alter table pods
  modify cluster varchar(256) not null,
  modify namespace varchar(256) not null,
  modify pod varchar(256) not null,
  modify pod_uid varchar(256) not null,
  modify node varchar(256) not null,
  modify owner_kind varchar(256) not null,
  modify owner_name varchar(256) not null,
  modify workload_kind varchar(256) not null,
  modify workload_name varchar(256) not null,
  modify workload_uid varchar(256) not null,
  modify team varchar(256) not null;

alter table workloads
  modify cluster varchar(256) not null,
  modify kind varchar(256) not null,
  modify namespace varchar(256) not null,
  modify name varchar(256) not null,
  modify uid varchar(256) not null,
  modify parent_uid varchar(256) not null;

alter table corrections
  modify cluster varchar(256) not null,
  modify node varchar(256) not null,
  modify uuid varchar(256) not null,
  modify serial varchar(256) not null,
  modify namespace varchar(256) not null,
  modify pod varchar(256) not null,
  modify pod_uid varchar(256) not null,
  modify workload_kind varchar(256) not null,
  modify workload_name varchar(256) not null,
  modify workload_uid varchar(256) not null,
  modify team varchar(256) not null,
  modify reason varchar(256) not null;

alter table hours
  modify cluster varchar(256) not null,
  modify state varchar(256) not null,
  modify digest varchar(256) not null;
