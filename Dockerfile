# An image with the programs alone. From this folder:
#
#   docker build --tag edgecut:0.1.0 .
#
# Besides the two base images only the crates that Cargo.lock names are downloaded.
ARG DEBIAN=bookworm

FROM docker.io/library/rust:1.95-slim-${DEBIAN} AS build
WORKDIR /edgecut
COPY . .
RUN cargo build --locked --release --workspace --exclude edgecut-benches --bins \
    && install --directory /programs \
    && install --target-directory /programs target/release/partition-graph target/release/train

FROM docker.io/library/debian:${DEBIAN}-slim
COPY --from=build /programs/ /usr/local/bin/
# Nobody in particular: what a job writes goes to a volume that this user may write to.
USER 10001:10001
CMD ["train", "--help"]
