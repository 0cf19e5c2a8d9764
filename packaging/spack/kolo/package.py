# In a checkout:  spack repo create DIR; put this folder into DIR/packages;  spack dev-build kolo@0.1.0
from spack.package import *


class Kolo(CMakePackage):
    """Distributed training for LibTorch programs in C++, over MPI: Horovod's way, without Python."""

    homepage = "https://kolo.example"  # Spack wants one; there is none yet

    license("Apache-2.0")

    version("0.1.0")

    variant("tests", default=False, description="Build the tests")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("highway", type="build")
    depends_on("nlohmann-json@3.7:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("xxhash", type="build")
    depends_on("googletest", type="build", when="+tests")
    depends_on("boost@1.71: +program_options+exception+system")
    depends_on("hdf5@1.10:")
    depends_on("libjpeg-turbo")
    depends_on("libpng")
    depends_on("libzip")
    depends_on("mpi@3:")
    depends_on("py-torch@2.9:")
    depends_on("python", type=("build", "run"))
    depends_on("zlib-api")

    def cmake_args(self):
        torch = join_path(self.spec["py-torch"].prefix, self.spec["python"].package.platlib, "torch")
        return [
            self.define_from_variant("KOLO_BUILD_TESTS", "tests"),
            self.define("KOLO_MPI", self.spec["mpi"].prefix),
            self.define("KOLO_TORCH", torch),
        ]
