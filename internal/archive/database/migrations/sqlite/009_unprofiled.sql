-- The activity is unknown if corrections have removed the profiled time. Before, daily sums were then 0.
update days set profiled_ms = null, tensor_active_ms = nullif(tensor_active_ms, 0), dram_active_ms = nullif(dram_active_ms, 0) where profiled_ms = 0;
