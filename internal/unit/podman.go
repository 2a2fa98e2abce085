package unit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// podmanContainer has the used fields of a row of containers.json of containers/storage. Metadata is
// itself JSON.
type podmanContainer struct {
	ID       string   `json:"id"`
	Names    []string `json:"names"`
	Metadata string   `json:"metadata"`
}

// readPodman returns Podman's containers by id. The file of containers that are removed when they
// end may be in the run root.
func readPodman(roots []string) (map[string]container, error) {
	all := make(map[string]container)
	var missing, first error
	read := 0
	for _, root := range roots {
		for _, file := range []string{"containers.json", "volatile-containers.json"} {
			var rows []podmanContainer
			switch err := decode(filepath.Join(root, "overlay-containers", file), &rows); {
			case errors.Is(err, fs.ErrNotExist):
				missing = cmp.Or(missing, err)
				continue
			case err != nil:
				first = cmp.Or(first, err)
				continue
			}
			read++
			for _, r := range rows {
				if len(r.Names) > 0 {
					all[r.ID] = container{manager: Podman, name: r.Names[0], image: imageOf(r.Metadata)}
				}
			}
		}
	}
	if read == 0 {
		first = cmp.Or(first, missing)
	}
	return all, first
}

// imageOf returns the name of the image in a container's metadata.
func imageOf(metadata string) string {
	var m struct {
		Image string `json:"image-name"`
	}
	_ = json.Unmarshal([]byte(metadata), &m) // without metadata the image is unknown
	return m.Image
}

// runtimeSpec has the used fields of <graph root>/overlay-containers/<id>/userdata/config.json, the
// container's configuration for its runtime (OCI runtime specification). It contains the
// environment, so nothing else is kept.
type runtimeSpec struct {
	Process struct{ Env visibleDevices }
	Hooks   struct {
		Prestart []struct{ Path string }
	}
	Linux struct{ Devices []deviceNode }
}

// deviceNode is a device that the container gets, such as /dev/nvidia0 by --device
// nvidia.com/gpu=0.
type deviceNode struct {
	Path         string
	Major, Minor int64
}

// readPodmanDevices returns the GPUs of a container.
func readPodmanDevices(roots []string, id, procFS string) ([]gpu.DeviceName, error) {
	var first error
	for _, root := range roots {
		var spec runtimeSpec
		err := decode(filepath.Join(root, "overlay-containers", id, "userdata", "config.json"), &spec)
		if err == nil {
			return spec.devices(procFS)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			first = cmp.Or(first, err)
		}
	}
	return nil, first
}

// The numbers of NVIDIA's device nodes (nvidia-modprobe). The nodes above lastGPU belong to the
// driver as a whole.
const (
	nvidiaMajor = 195
	lastGPU     = 253
	// Other capabilities than these two belong to a MIG device.
	migConfig, migMonitor = 1, 2
)

// devices returns the GPUs of a container. NVIDIA's hook adds devices later, by the environment. The
// container of a MIG device also has the node of the GPU, which it does not hold.
func (s runtimeSpec) devices(procFS string) (list []gpu.DeviceName, err error) {
	for _, h := range s.Hooks.Prestart {
		if strings.HasPrefix(filepath.Base(h.Path), "nvidia-container-") {
			return s.Process.Env.devices(), nil
		}
	}
	var instances []int64
	for _, d := range s.Linux.Devices {
		switch {
		case strings.HasPrefix(d.Path, "/dev/nvidia-caps/") && d.Minor != migConfig && d.Minor != migMonitor:
			instances = append(instances, d.Minor)
		case d.Major == nvidiaMajor && 0 <= d.Minor && d.Minor <= lastGPU && len(list) < maxHeldLines:
			list = append(list, gpu.DeviceName{Node: fmt.Sprintf("nvidia%d", d.Minor)})
		}
	}
	if len(instances) == 0 {
		return list, nil
	}
	partitions, err := readMIGMinors(procFS)
	if err != nil {
		return nil, err
	}
	var held []gpu.DeviceName
	for _, minor := range instances {
		p, ok := partitions[minor]
		if !ok || len(list)+len(held) >= maxHeldLines { // a compute instance, after its GPU instance
			continue
		}
		held = append(held, p)
		list = slices.DeleteFunc(list, func(d gpu.DeviceName) bool { return d.Partition == nil && d.Node == p.Node })
	}
	return append(list, held...), nil
}

// migAccess matches the right to use a GPU instance in the driver's list: the minor number of the
// GPU, the instance, and the minor number of the right's device node.
var migAccess = regexp.MustCompile(`(?m)^gpu([0-9]{1,3})/gi([0-9]{1,3})/access ([0-9]{1,6})$`)

// maxMIGMinors limits the driver's list, in bytes. It has a line for each instance that any GPU could have.
const maxMIGMinors = 1 << 20

// readMIGMinors returns the MIG instances by the minor numbers of their device nodes
// (/proc/driver/nvidia-caps/mig-minors).
func readMIGMinors(procFS string) (map[int64]gpu.DeviceName, error) {
	data, _, err := readTrusted(filepath.Join(procFS, "driver/nvidia-caps/mig-minors"), maxMIGMinors)
	if err != nil {
		return nil, err
	}
	all := make(map[int64]gpu.DeviceName)
	for _, m := range migAccess.FindAllStringSubmatch(string(data), -1) {
		minor, _ := strconv.ParseInt(m[3], 10, 64) // a number of at most six digits
		all[minor] = gpu.DeviceName{Node: "nvidia" + m[1], Partition: &gpu.PartitionName{Instance: m[2]}}
	}
	return all, nil
}
