# The images of gpuledger, for amd64 and arm64:
#
#   docker build --build-arg VERSION=… .          the exporter, for the GPU nodes
#   docker build --target gpuledger-dcgm .        the same and NVIDIA's DCGM client library
#   docker build --target gpuledger-reconciler .  the reconciler
#   docker build --target gpuledger-archive .     the archive
#
# All programs are cross-compiled, so no stage runs programs for another architecture. The only base image is Debian
# with the Go version in go.mod's toolchain line. The images contain programs that are built on this base image, and
# files from Debian's signed packages.
#
# The digest identifies the index of all architectures. Dependabot updates it. A release
# without a digest fails. To compare the digest with the digest of the tag:
#
#   docker buildx imagetools inspect golang:1.26.8-bookworm
FROM --platform=$BUILDPLATFORM docker.io/library/golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d AS source
WORKDIR /src
COPY . .
# GOPROXY may name another source of Go modules. go.sum contains the checksums of the modules.
ARG GOPROXY=
ENV GOPROXY=$GOPROXY

# The exporter opens the driver's library at run time. This library needs glibc. The C library of Alpine cannot bind
# lazily.
FROM source AS libc
ARG TARGETARCH
RUN tools/image/libc "$TARGETARCH" /root-filesystem

FROM source AS build-exporter
ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=unknown
ARG BRANCH=unknown
RUN tools/image/exporter "$TARGETARCH"

FROM source AS build-reconciler
ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=unknown
ARG BRANCH=unknown
RUN GOARCH="$TARGETARCH" make reconciler

# The image contains only a static program. The files of the ServiceAccount contain the cluster's certificate authority.
FROM scratch AS gpuledger-reconciler
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpuledger-reconciler" \
      org.opencontainers.image.description="Labels Nodes with the identity of their GPUs, and reports the workload of each GPU pod" \
      org.opencontainers.image.source="https://github.com/gpuledger/gpuledger" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build-reconciler /src/LICENSE /LICENSE
COPY --from=build-reconciler /src/bin/gpuledger-reconciler /gpuledger-reconciler
USER 65532:65532
EXPOSE 9840
ENTRYPOINT ["/gpuledger-reconciler"]

FROM source AS build-archive
ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=unknown
ARG BRANCH=unknown
RUN GOARCH="$TARGETARCH" make archive

# The image contains a static program and Debian's certificate authorities, because the store and
# the databases may be outside the cluster.
FROM scratch AS gpuledger-archive
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpuledger-archive" \
      org.opencontainers.image.description="Files the record of GPU fleets as tables: which GPU served which pod in each hour, and for how many joules" \
      org.opencontainers.image.source="https://github.com/gpuledger/gpuledger" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build-archive /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build-archive /src/LICENSE /LICENSE
COPY --from=build-archive /src/bin/gpuledger-archive /gpuledger-archive
USER 65532:65532
EXPOSE 9841
ENTRYPOINT ["/gpuledger-archive"]

# The program runs as user 0, because only root can use the kubelet's sockets and read the DMI
# serial numbers. It needs no capabilities, and writes only to /run/gpuledger.
FROM scratch AS exporter
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpuledger" \
      org.opencontainers.image.description="Which physical GPU served which pod, when, and for how many joules: a Prometheus exporter" \
      org.opencontainers.image.source="https://github.com/gpuledger/gpuledger" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=libc /root-filesystem /
COPY --from=build-exporter /src/LICENSE /LICENSE
COPY --from=build-exporter /src/bin/gpuledger /gpuledger
# With these variables, the container toolkit adds all GPUs and the driver's library, but not CUDA.
# This also works outside Kubernetes.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=utility
USER 0:0
EXPOSE 9840
ENTRYPOINT ["/gpuledger"]

# NVIDIA's terms apply to NVIDIA's library, so this image is not published. Build it if you need it.
FROM libc AS dcgm
ARG TARGETARCH
RUN tools/image/dcgm "$TARGETARCH" /root-filesystem /dcgm

FROM exporter AS gpuledger-dcgm
COPY --from=dcgm /dcgm /

# The last stage is the default.
FROM exporter AS gpuledger
