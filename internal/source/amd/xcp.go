package amd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// xcpFile is a path below a partition's device folder. The file contains the metrics of this partition (Linux,
// amdgpu_xcp.c). Since revision 1.9, gpu_metrics itself contains no metrics of partitions.
const xcpFile = "xcp/xcp_metrics"

// These are the size of xcp_metrics in revision 1.0, and the offset of its activity sums (struct
// amdgpu_partition_metrics_v1_0, gfx_busy_acc).
const (
	xcpSize = 488
	xcpBusy = 168
)

// busySums contains the activity sum of each compute die in a partition.
type busySums = [maxXCC]value

// readPartitions does nothing if gpu_metrics contains the activity sums of the partitions.
func (r *reader) readPartitions(m *metrics) {
	p := r.device.Partitions
	if p == nil || m.busy != [maxPartitions]busySums{} {
		return
	}
	for k, i := range p.Instances[:min(len(p.Instances), maxPartitions)] {
		file, err := readFile(r.partitionFolder(i), xcpFile)
		if err == nil {
			m.busy[k], err = decodePartition(file)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.logOnce("the activity of partitions is unknown", err)
		}
	}
}

func (r *reader) partitionFolder(i gpu.Partition) string {
	if name := i.Devices[0].UUID; platformName.MatchString(name) {
		return filepath.Join(r.cfg.Sys, "devices/platform", name)
	}
	return r.card.folder
}

func decodePartition(file []byte) (busy busySums, err error) {
	if len(file) < headerSize {
		return busy, fmt.Errorf("decode xcp_metrics: %d bytes", len(file))
	}
	size, format, content := int(binary.NativeEndian.Uint16(file)), file[2], file[3]
	if size > len(file) {
		return busy, fmt.Errorf("decode xcp_metrics: %d of %d bytes", len(file), size)
	}
	file = file[:size]
	sums := func(at, n int) {
		for x := range min(n, maxXCC) {
			busy[x] = u64(at + 8*x).read(file)
		}
	}
	switch {
	case format == 1 && content == 0 && size == xcpSize:
		sums(xcpBusy, maxXCC)
	case format == 1 && content == 1:
		err = eachAttribute(file, func(a attribute, at int) {
			if a.id == idBusySums && a.width() == 8 && !a.signed() {
				sums(at, a.count)
			}
		})
	default:
		err = fmt.Errorf("unknown revision %d.%d of %d bytes", format, content, size)
	}
	if err != nil {
		return busySums{}, fmt.Errorf("decode xcp_metrics: %w", err)
	}
	return busy, nil
}
