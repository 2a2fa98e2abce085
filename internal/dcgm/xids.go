package dcgm

import (
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// xids are the times up to which errors were told, µs of the wall clock.
type xids struct {
	since int64 // of GPUs without any yet
	until map[entity]int64
}

func newXIDs(since time.Time) xids {
	return xids{since: since.UnixMicro(), until: make(map[entity]int64)}
}

// maxXIDs is how many errors of a GPU are told in one report at most.
const maxXIDs = 64

// xid returns the code of a GPU's last error, 0 for none, and whether the engine waits for
// errors at all. It has no data before the first one, nor ever of a GPU that the driver
// tells no events of.
func (v value) xid() (code int64, ok bool) {
	if v.status == codeNoData {
		return 0, true
	}
	return v.count()
}

// tellXIDs adds to the report the errors of a GPU that were not told yet. It reports
// whether the engine waits for errors at all. The newest one is always at hand; if it is
// new, those before it are asked for too.
func (d *session) tellXIDs(report *gpu.Report, g entity, vs values) bool {
	v := vs[key{g, godcgm.DCGM_FI_DEV_XID_ERROR}]
	newest, ok := v.xid()
	until := max(d.xids.until[g], d.xids.since)
	if !ok || newest == 0 || v.at <= until {
		return ok
	}
	now, errs := d.cfg.Now(), d.history(g, until+1, v)
	d.xids.until[g] = errs[len(errs)-1].at // what is too much for one report is left to the next
	for _, x := range errs {
		report.XIDs = append(report.XIDs, gpu.XID{UUID: d.boards[g].device.UUID, Code: x.bits, At: moment(now, x.at).Wall})
	}
	return true
}

// history returns the errors from a time on, oldest first, of which the newest is known.
func (d *session) history(g entity, from int64, newest value) (out []value) {
	err := d.engine.do("dcgmGetMultipleValuesForField", func() error {
		vs, err := godcgm.GetMultipleValuesForField(g.EntityId, godcgm.DCGM_FI_DEV_XID_ERROR, maxXIDs, time.UnixMicro(from), time.UnixMicro(newest.at))
		for i := range vs {
			v := value{status: vs[i].Status, kind: vs[i].FieldType, at: vs[i].TS, bits: uint64(vs[i].Int64())}
			if n, ok := v.count(); ok && n != 0 {
				out = append(out, v)
			}
		}
		return err
	})
	if err != nil || len(out) == 0 {
		return []value{newest}
	}
	return out
}
